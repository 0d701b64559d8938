"""Effects in SQL databases: of any number of attempts one commits, on PostgreSQL and on SQLite."""

from __future__ import annotations

from threading import Thread

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from support import DiedError, wait_until

from denyut import current_job
from denyut.errors import AlreadyCommitted, ConfigurationError, JobCancelled, LeaseLost
from denyut.states import State
from denyut.tasks.effects import create_effects_table, effects
from denyut.tasks.run import JobRun
from denyut.tasks.slots import LOST, SlotBlock

PAY = text("INSERT INTO payments (amount) VALUES (:amount)")


class Base(DeclarativeBase):
    pass


class Payment(Base):
    __tablename__ = "payments"
    amount: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture(params=["postgresql", "sqlite"])
def bare_engine(request, tmp_path):
    """A database without the table of effects."""
    if request.param == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path / 'effects.db'}")
    else:
        engine = create_engine(request.getfixturevalue("postgres"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE payments (amount INTEGER UNIQUE)"))
    yield engine
    engine.dispose()


@pytest.fixture
def engine(bare_engine):
    create_effects_table(bare_engine)
    return bare_engine


def payments(engine):
    with engine.connect() as connection:
        return [row[0] for row in connection.execute(text("SELECT amount FROM payments ORDER BY amount"))]


def rows(engine):
    with engine.connect() as connection:
        return connection.execute(effects.select()).all()


def run(**options):
    return JobRun(**{"id": "j", "task": "t", "fence": 7, **options})


@pytest.mark.parametrize("kind", ["session", "connection", "scoped"])
def test_the_effect_and_the_fact_that_it_happened_are_committed_together(engine, kind):
    makers = {"session": lambda: Session(engine), "connection": engine.connect}
    makers["scoped"] = scoped_session(sessionmaker(engine))
    session = makers[kind]()
    session.execute(PAY, {"amount": 5})
    assert run().commit(session, {"paid": 5}) == {"paid": 5}
    session.close()
    assert payments(engine) == [5]
    [row] = rows(engine)
    assert (row.job_id, row.task, row.step, row.fence, row.attempt) == ("j", "t", "", 7, 1)
    assert row.committed_at is not None


def test_a_second_attempt_finds_what_the_first_committed(engine):
    with Session(engine) as session:
        assert run().committed(session) is None
        run().commit(session, (1, "two"))
    with Session(engine) as session:
        done = run(attempt=2, fence=8).committed(session)
    assert (done.result, done.attempt, done.fence) == ([1, "two"], 1, 7)


@pytest.mark.parametrize("fence", [3, 8])
def test_an_attempt_that_did_not_look_is_rolled_back_and_given_what_stands(engine, fence):
    with Session(engine) as session:
        session.execute(PAY, {"amount": 1})
        run().commit(session, "first")
    with Session(engine) as session:
        session.execute(PAY, {"amount": 2})
        assert run(attempt=2, fence=fence).commit(session, "second") == "first"
    assert payments(engine) == [1]
    assert len(rows(engine)) == 1


def test_it_may_stand_in_a_block_that_would_commit_by_itself(engine):
    for attempt in (1, 2):
        with Session(engine) as session, session.begin():
            session.execute(PAY, {"amount": attempt})
            assert run(attempt=attempt).commit(session, attempt) == 1
    assert payments(engine) == [1]


def test_an_effect_that_the_database_refuses_leaves_no_trace(engine):
    with Session(engine) as session:
        session.execute(PAY, {"amount": 1})
        session.commit()
        session.add(Payment(amount=1))
        with pytest.raises(IntegrityError):
            run().commit(session)
    assert rows(engine) == []


def test_each_step_and_each_task_of_a_job_has_an_effect_of_its_own(engine):
    job = run()
    with Session(engine) as session:
        assert [job.commit(session, name, step=name) for name in ("a", "b")] == ["a", "b"]
        assert run(task="u").commit(session, "c", step="a") == "c"
        assert job.committed(session, step="b").result == "b"


def test_the_same_effect_twice_in_one_attempt_is_a_mistake_and_said_to_be_one(engine):
    job = run()
    with Session(engine) as session:
        job.commit(session)
        session.execute(PAY, {"amount": 2})
        with pytest.raises(AlreadyCommitted, match="step="):
            job.commit(session)
    assert payments(engine) == []


def test_without_the_table_the_error_says_how_to_make_it(bare_engine):
    with Session(bare_engine) as session:
        for step in (run().commit, run().committed):
            with pytest.raises(ConfigurationError, match="create_effects_table"):
                step(session)


def test_the_table_may_be_created_again(engine):
    create_effects_table(engine)


@pytest.mark.parametrize("what", ["an engine", None])
def test_what_is_no_session_is_refused(what):
    with pytest.raises(TypeError, match="Session or Connection"):
        run().commit(what)


@pytest.mark.parametrize("step", [7, "x" * 101])
def test_a_step_that_does_not_fit_is_refused(engine, step):
    with Session(engine) as session, pytest.raises(ValueError, match="100 characters"):
        run().commit(session, step=step)


def test_a_result_that_json_cannot_hold_is_refused_before_anything_is_written(engine):
    from kombu.exceptions import EncodeError

    with Session(engine) as session:
        with pytest.raises(EncodeError):
            run().commit(session, object())
        session.commit()
    assert rows(engine) == []


def test_an_attempt_that_was_told_of_its_lost_lease_commits_nothing(engine):
    block = SlotBlock.create(1)
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="o")
    block.flag(0, 7, LOST)
    with Session(engine) as session:
        session.execute(PAY, {"amount": 1})
        with pytest.raises(LeaseLost):
            run(slot=slot).commit(session)
    slot.release()
    block.close()
    assert payments(engine) == []


def test_of_two_attempts_at_the_same_moment_one_commits_and_both_return_its_result(postgres):
    engine = create_engine(postgres)
    create_effects_table(engine)
    given = {}

    def rival():
        with Session(engine) as session:
            given["rival"] = run(attempt=2, fence=8).commit(session, "second")

    def waits():
        with engine.connect() as connection:
            return connection.execute(
                text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            ).scalar()

    with Session(engine) as session:
        session.execute(
            effects.insert().values(
                job_id="j", task="t", step="", fence=7, attempt=1, result='["application/json", "utf-8", "1"]'
            )
        )
        thread = Thread(target=rival)
        thread.start()
        wait_until(waits, what="the rival to wait for the first")
        session.commit()
    thread.join()
    assert given == {"rival": 1}
    assert len(rows(engine)) == 1
    engine.dispose()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_under_a_stricter_isolation_the_second_is_refused_and_finds_the_first_when_it_tries_again(
    postgres, level
):
    engine = create_engine(postgres, isolation_level=level)
    create_effects_table(engine)
    rival = run(attempt=2, fence=8)
    with Session(engine) as second:
        assert rival.committed(second) is None  # its snapshot is taken
        with Session(engine) as first:
            run().commit(first, "first")
        with pytest.raises(OperationalError, match="could not serialize"):
            rival.commit(second, "second")
        second.rollback()
        assert rival.commit(second, "second") == "first"
    assert len(rows(engine)) == 1
    engine.dispose()


def test_on_sqlite_the_second_is_refused_while_the_first_writes(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'effects.db'}", connect_args={"timeout": 0.05})
    create_effects_table(engine)
    rival = run(attempt=2, fence=8)
    with Session(engine) as first, Session(engine) as second:
        first.execute(
            effects.insert().values(job_id="other", task="t", step="", fence=1, attempt=1, result="")
        )
        with pytest.raises(OperationalError, match="database is locked"):
            rival.commit(second, "second")
        first.commit()
        assert rival.commit(second, "second") == "second"
    engine.dispose()


def test_a_rival_that_gives_up_lets_the_other_commit(postgres):
    engine = create_engine(postgres)
    create_effects_table(engine)
    with Session(engine) as first:
        first.execute(effects.insert().values(job_id="j", task="t", step="", fence=7, attempt=1, result="1"))
        first.rollback()
    with Session(engine) as second:
        assert run(attempt=2).commit(second, "second") == "second"
    engine.dispose()


def paying(bench, engine, then):
    """A task that pays and commits; ``then(job, session)`` may get in between."""

    @bench.task(name="t.pays")
    def pays():
        job = current_job()
        with Session(engine) as session:
            if done := job.committed(session):
                return [done.result, job.attempt]
            session.execute(PAY, {"amount": job.attempt})
            then(job, session)
            given = job.commit(session, "paid")
        if job.attempt == 1:
            raise DiedError
        return [given, job.attempt]

    result = pays.delay()
    return result, bench.messages()[0]


def test_a_crash_between_commit_and_complete_loses_nothing_and_repeats_nothing(bench, engine):
    result, message = paying(bench, engine, lambda *_: None)
    with pytest.raises(DiedError):
        bench.run(message)
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == ["paid", 2]
    assert payments(engine) == [1]


def test_an_attempt_whose_job_was_taken_over_is_rolled_back(bench, engine):
    def take_over(job, session):
        if job.attempt == 1:
            bench.pulse.store.client.hset(bench.pulse.keys.job(job.id).record, "fence", job.fence + 1)

    result, message = paying(bench, engine, take_over)
    bench.run(message)
    assert payments(engine) == []
    assert bench.record(result.id).state == State.RUNNING
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == ["paid", 2]
    assert payments(engine) == [2]


def test_a_job_that_was_cancelled_meanwhile_is_rolled_back(bench, engine):
    from denyut.tasks.cancel import end_from_outside

    raised = []

    def cancel(job, session):
        end_from_outside(bench.pulse, job.id, State.CANCELLED, retention=60, running=True)
        with pytest.raises(JobCancelled):
            job.commit(session, "paid")
        raised.append(1)
        raise DiedError

    _, message = paying(bench, engine, cancel)
    with pytest.raises(DiedError):
        bench.run(message)
    assert raised == [1]
    assert payments(engine) == []


def test_a_job_that_was_told_to_stop_and_has_not_heard_it_is_rolled_back(bench, engine):
    def cancel(job, session):
        assert bench.pulse.jobs.cancel(job.id)

    result, message = paying(bench, engine, cancel)
    bench.run(message)
    assert payments(engine) == []
    assert bench.record(result.id).state == State.CANCELLED


def test_a_job_that_may_have_taken_effect_is_given_a_second_budget_to_find_out(make_bench, engine):
    bench = make_bench(denyut_max_crashes=1)
    result, message = paying(bench, engine, lambda *_: None)
    with pytest.raises(DiedError):
        bench.run(message)
    key = bench.pulse.keys.job(result.id).record
    bench.pulse.store.client.hset(key, "crashes", 1)  # it has lost a worker before it came to commit
    bench.crash(result.id)
    bench.run(message)
    assert result.get(timeout=5) == ["paid", 2]
    assert bench.record(result.id).crashes == 2


def test_that_budget_has_an_end_too(make_bench, engine):
    bench = make_bench(denyut_max_crashes=1)
    result, message = paying(bench, engine, lambda *_: None)
    with pytest.raises(DiedError):
        bench.run(message)
    bench.pulse.store.client.hset(bench.pulse.keys.job(result.id).record, "crashes", 3)
    bench.crash(result.id)
    bench.run(message)
    found = bench.record(result.id)
    assert found.state == State.DEAD
    assert found.reason == "lost 4 workers (max_crashes=3); its effect may have been committed"


def test_without_a_worker_every_call_is_a_job_of_its_own(bench, engine):
    @bench.task(name="t.direct")
    def direct(amount):
        with Session(engine) as session:
            session.execute(PAY, {"amount": amount})
            return current_job().commit(session, amount)

    assert [direct(1), direct(2), direct.apply((3,)).get()] == [1, 2, 3]
    assert payments(engine) == [1, 2, 3]
