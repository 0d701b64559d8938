"""An enqueue with a transaction takes effect if, and only if, that commits."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

import pytest
from celery import chain, chord, group
from kombu.exceptions import EncodeError
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from support import DiedError

from denyut.errors import (
    ConfigurationError,
    IdempotencyConflict,
    InvalidKey,
    InvalidUniqueness,
    JobExists,
    MessageTooLarge,
    NotKeepable,
    Unfingerprintable,
)
from denyut.states import State
from denyut.tasks.schedule import Schedule

ORDER = text("INSERT INTO orders (n) VALUES (:n)")


def test_a_commit_enqueues_the_job_once_and_its_result_is_that_of_the_handle(post):
    with Session(post.engine) as session, session.begin():
        session.execute(ORDER, {"n": 1})
        result = post.outbox.enqueue(session, post.note.s(5))
    assert post.bench.record(result.id) is None, "before it is relayed"
    assert post.deliver() == [5]
    assert post.orders() == [1]
    assert result.get(timeout=5) == 5
    assert result.deduplicated is None
    assert post.rows() == []
    assert post.deliver() == [5]


@pytest.mark.parametrize("how", ["rollback", "an error", "death"])
def test_what_is_not_committed_never_was(post, how):
    def sell() -> None:
        with Session(post.engine) as session:
            session.execute(ORDER, {"n": 1})
            post.outbox.enqueue(session, post.note.s(5))
            if how == "death":
                raise DiedError
            if how == "an error":
                raise ValueError
            session.rollback()

    with suppress(ValueError, DiedError):
        sell()
    assert post.deliver() == []
    assert (post.rows(), post.orders()) == ([], [])


@pytest.mark.parametrize("kind", ["session", "connection", "scoped"])
def test_any_transaction_of_sqlalchemy_will_do(post, kind):
    makers = {"session": lambda: Session(post.engine), "connection": post.engine.connect}
    makers["scoped"] = scoped_session(sessionmaker(post.engine))
    session = makers[kind]()
    post.outbox.enqueue(session, post.note.s(1))
    session.rollback()
    post.outbox.enqueue(session, post.note.s(2))
    session.commit()
    session.close()
    assert post.deliver() == [2]


def test_of_nested_transactions_each_counts_by_itself(post):
    with Session(post.engine) as session, session.begin():
        post.outbox.enqueue(session, post.note.s("outer"))
        with session.begin_nested():
            post.outbox.enqueue(session, post.note.s("kept"))
        inner = session.begin_nested()
        post.outbox.enqueue(session, post.note.s("undone"))
        inner.rollback()
    assert post.deliver() == ["outer", "kept"]


def test_a_released_savepoint_of_a_transaction_that_is_rolled_back_is_nothing(post):
    with Session(post.engine) as session:
        session.execute(ORDER, {"n": 1})  # sqlite3 begins the transaction here, and not with a savepoint
        with session.begin_nested():
            post.outbox.enqueue(session, post.note.s(1))
        session.rollback()
    assert (post.deliver(), post.orders()) == ([], [])


def test_threads_that_enqueue_at_once_do_not_take_each_others_jobs(post):
    def sell(n: int) -> None:
        with Session(post.engine) as session:
            for part in range(10):
                post.outbox.enqueue(session, post.note.s([n, part]))
            if n % 2:
                session.commit()

    threads = [Thread(target=sell, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = post.deliver()
    assert sorted(done) == [[n, part] for n in (1, 3) for part in range(10)]
    for n in (1, 3):
        assert [part for who, part in done if who == n] == list(range(10)), "in the order of their enqueue"


def test_neither_redis_nor_broker_is_needed_to_enqueue(lite, pulse):
    away = pulse(url="redis://127.0.0.1:1/0", denyut_outbox_url="sqlite:///x", denyut_redis_timeout=0.1)

    @away.app.task(name="t.away", shared=False)
    def task() -> None:
        """It is never run here."""

    with Session(lite.engine) as session, session.begin():
        away.outbox.enqueue(session, task.s(), idempotency_key="k")
    away.outbox.close()
    [row] = lite.rows()
    assert (row.task, row.key, row.attempts, row.try_at) == ("t.away", "k", 0, 0)


@pytest.mark.parametrize(
    ("options", "args", "error"),
    [
        ({"idempotency_key": ""}, (), InvalidKey),
        ({"idempotency_key": "x" * 300}, (), InvalidKey),
        ({"idempotency_key": 3}, (), InvalidKey),
        ({"task_id": "y" * 300}, (), InvalidKey),
        ({"on_conflict": "riase"}, (), InvalidUniqueness),
        ({}, (object(),), EncodeError),
        ({}, (1, 2, 3), TypeError),
        ({}, ("x" * 20_000,), MessageTooLarge),
        ({"countdown": float("nan")}, (), ValueError),
        ({"idempotency_key": "k", "serializer": "pickle"}, (object(),), Unfingerprintable),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_delay_refuses_is_refused_with_the_same_error_and_nothing_is_written(
    make_post, options, args, error
):
    post = make_post(accept_content=["json", "pickle"], denyut_max_message_bytes=10_000)
    with pytest.raises(error) as plain:
        post.note.apply_async(args, **options)
    with Session(post.engine) as session:
        with pytest.raises(error) as kept:
            post.outbox.enqueue(session, post.note.s(*args), **options)
        session.commit()
    assert type(kept.value) is type(plain.value)
    assert str(kept.value)[:15] == str(plain.value)[:15]
    assert post.rows() == []


def test_a_group_a_chord_and_what_is_no_job_are_refused(lite):
    with Session(lite.engine) as session:
        for bad in (group(lite.note.s(1)), chord([lite.note.s(1)], lite.note.s()), lite.note, "t.note"):
            with pytest.raises(NotKeepable):
                lite.outbox.enqueue(session, bad)
        with pytest.raises(NotKeepable, match="no job of this app"):
            lite.outbox.enqueue(session, lite.bench.app.signature("celery.backend_cleanup"))
        session.commit()
    assert lite.rows() == []


def test_a_chain_is_one_row_and_runs_to_its_end(lite):
    with Session(lite.engine) as session, session.begin():
        result = lite.outbox.enqueue(session, chain(lite.note.s(1), lite.note.s(), lite.note.si(3)))
    assert len(lite.rows()) == 1
    assert lite.deliver() == [1, 1, 3]
    assert result.get(timeout=5) == 3


def test_without_a_setting_it_says_which(pulse, lite):
    bare = pulse()
    with (
        Session(lite.engine) as session,
        pytest.raises(ConfigurationError, match="denyut_outbox_url is not set"),
    ):
        bare.outbox.enqueue(session, lite.note.s())


def test_an_eager_app_is_told_that_it_cannot_wait(make_post):
    post = make_post(task_always_eager=True)
    with Session(post.engine) as session, pytest.raises(ConfigurationError, match="task_always_eager"):
        post.outbox.enqueue(session, post.note.s())
    assert post.ran == []


def test_a_database_without_the_table_is_an_error_that_says_how_to_make_it(lite, tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/empty.db")
    with (
        Session(engine) as session,
        pytest.raises(ConfigurationError, match=r"no table denyut_outbox .* migrate"),
    ):
        lite.outbox.enqueue(session, lite.note.s())
    engine.dispose()


def test_an_enqueue_in_a_task_is_no_child_of_it(lite):
    @lite.bench.task(name="t.parent")
    def parent() -> None:
        with Session(lite.engine) as session:
            lite.outbox.enqueue(session, lite.note.s(1))  # and never commits

    result = parent.delay()
    lite.bench.drain()
    result.get(timeout=5)
    assert result.children == []


# ---- keys --------------------------------------------------------------------------------------------


def test_two_commits_with_one_key_are_one_run_and_both_handles_get_its_result(post):
    results = []
    for _ in range(2):
        with Session(post.engine) as session, session.begin():
            results.append(post.outbox.enqueue(session, post.note.s(7), idempotency_key="order:7"))
    assert results[0].id != results[1].id
    assert post.deliver() == [7]
    assert post.bench.record(results[1].id).follows == results[0].id
    assert [each.get(timeout=5) for each in results] == [7, 7]


def test_the_second_handle_of_a_key_waits_for_the_job_that_has_it(post):
    results = []
    for _ in range(2):
        with Session(post.engine) as session, session.begin():
            results.append(post.outbox.enqueue(session, post.note.s(7), idempotency_key="order:7"))
    post.relay_all()
    first, second = post.bench.messages()
    post.bench.run(second)
    assert post.bench.record(results[1].id).state == State.SCHEDULED, "it looks again later"
    post.bench.run(first)
    keys, job_id = post.pulse.keys, results[1].id
    post.client.zadd(keys.partition(keys.partition_of(job_id)).schedule, {job_id: 1})
    post.client.hset(keys.job(job_id).record, "due", 1)
    Schedule(post.pulse).look()
    post.bench.drain()
    assert [each.get(timeout=5) for each in results] == [7, 7]
    assert post.ran == [7]


def test_a_key_that_a_plain_delay_holds_is_followed(post):
    first = post.note.apply_async((1,), idempotency_key="k")
    with Session(post.engine) as session, session.begin():
        second = post.outbox.enqueue(session, post.note.s(1), idempotency_key="k")
    assert post.deliver() == [1]
    assert second.get(timeout=5) == first.get(timeout=5) == 1


def test_a_key_with_other_arguments_fails_the_later_job_as_a_conflict(post):
    post.note.apply_async((1,), idempotency_key="k")
    with Session(post.engine) as session, session.begin():
        second = post.outbox.enqueue(session, post.note.s(2), idempotency_key="k")
    assert post.deliver() == [1]
    with pytest.raises(IdempotencyConflict):
        second.get(timeout=5)
    assert post.bench.record(second.id).state == State.FAILED


def test_a_policy_of_its_key_goes_with_the_job_whose_id_is_a_given_one(post):
    first = post.note.apply_async((1,), idempotency_key="k")
    with Session(post.engine) as session, session.begin():
        raises = post.outbox.enqueue(session, post.note.s(1), idempotency_key="k", on_conflict="raise")
        other = post.outbox.enqueue(session, post.note.s(1), idempotency_key="k", unique_scope="mine")
    assert post.deliver() == [1, 1]
    with pytest.raises(JobExists):
        raises.get(timeout=5)
    assert first.get(timeout=5) == other.get(timeout=5) == 1


def test_a_job_that_runs_again_does_so_after_the_one_that_has_its_key(post):
    post.note.apply_async((1,), idempotency_key="k", on_conflict="run_again")
    with Session(post.engine) as session, session.begin():
        again = post.outbox.enqueue(session, post.note.s(2), idempotency_key="k", on_conflict="run_again")
    post.relay_all()
    first, *others = post.bench.messages()
    post.bench.run(first)
    for message in others:
        post.bench.run(message)
    keys = post.pulse.keys
    post.client.zadd(keys.partition(keys.partition_of(again.id)).schedule, {again.id: 1})
    post.client.hset(keys.job(again.id).record, "due", 1)
    Schedule(post.pulse).look()
    post.bench.drain()
    assert post.ran == [1, 2]
    assert again.get(timeout=5) == 2


def test_a_key_given_by_the_tasks_template_counts(lite):
    @lite.bench.task(name="t.keyed", idempotency_key="n:{n}")
    def keyed(n: int) -> None:
        lite.ran.append(n)

    with Session(lite.engine) as session, session.begin():
        lite.outbox.enqueue(session, keyed.s(4))
    assert lite.rows()[0].key == "n:4"
    assert lite.deliver() == [4]
    assert keyed.delay(4).deduplicated is True


def test_a_key_that_the_database_could_not_hold_is_the_jobs_all_the_same(post):
    with Session(post.engine) as session, session.begin():
        with pytest.raises(InvalidKey, match="a job id with NUL"):
            post.outbox.enqueue(session, post.note.s(), task_id="a\0b")
        post.outbox.enqueue(session, post.note.s(1), idempotency_key="a\0ü")
    assert post.rows()[0].key == "a\\0ü"
    assert post.deliver() == [1]
    assert post.note.apply_async((1,), idempotency_key="a\0ü").deduplicated is True


def test_an_id_of_the_callers_own_is_one_job_however_it_is_enqueued(post):
    post.note.apply_async((0,), task_id="mine")
    assert post.deliver() == [0]
    for n in (1, 2):
        with Session(post.engine) as session, session.begin():
            post.outbox.enqueue(session, post.note.s(n), task_id="mine")
            assert post.outbox.enqueue(session, post.note.s(n), task_id="other").id == "other"
        assert post.deliver() == [0, 1]
    assert post.rows() == []


# ---- later -------------------------------------------------------------------------------------------


def test_a_countdown_begins_with_the_enqueue(post):
    with Session(post.engine) as session, session.begin():
        late = post.outbox.enqueue(session, post.note.s("late"), countdown=100)
        soon = post.outbox.enqueue(session, post.note.s("over"), countdown=50)
    first, second = post.rows()
    post.change(first.seq, due=first.due - 90_000_000)  # as if it had waited here for so long
    post.change(second.seq, due=second.due - 90_000_000)
    assert post.deliver() == ["over"]
    found = post.bench.record(late.id)
    assert found.state == State.SCHEDULED
    assert 5 < (found.due - post.pulse.store.now_us()) / 1e6 <= 10
    assert soon.get(timeout=5) == "over"


def test_options_go_with_the_job(lite):
    with Session(lite.engine) as session, session.begin():
        lite.outbox.enqueue(
            session, lite.note.s(1).set(priority=3), queue="other", link=lite.note.si("linked")
        )
    lite.relay_all()
    [message] = lite.bench.messages("other")
    assert message.properties["priority"] == 3
    lite.bench.run(message)
    assert lite.deliver() == [1, "linked"]
