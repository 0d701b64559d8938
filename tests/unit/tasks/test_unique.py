"""What a key's policy may be, and what a bad one says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from denyut.errors import ConfigurationError, IdempotencyConflict, InvalidKey, InvalidUniqueness
from denyut.tasks.unique import PLAIN, check_uniqueness, key_of_arguments, uniqueness_of


def policy(options=None, *, args=(), task=None, retention=3600.0):
    return uniqueness_of(task, {} if options is None else options, args, {}, retention=retention)


def test_without_any_of_the_four_there_is_no_policy():
    assert policy() is PLAIN
    assert PLAIN.headers == {}
    assert PLAIN.fields == []


def test_a_call_comes_before_a_header_and_a_header_before_the_task():
    class Task:
        on_conflict = "raise"

    assert policy(task=Task).on_conflict == "raise"
    assert policy({"headers": {"on_conflict": "replace"}}, task=Task).on_conflict == "replace"
    options = {"on_conflict": "return", "headers": {"on_conflict": "replace"}, "queue": "q"}
    assert policy(options, task=Task).on_conflict == "return"
    assert "on_conflict" not in options
    assert options["queue"] == "q"


def test_a_period_alone_lasts_at_least_until_the_job_has_completed():
    assert policy({"unique_for": 60}).until == "completed"
    assert policy({"unique_for": timedelta(minutes=1)}).period_us == "60000000"
    assert policy({"unique_for": 60, "unique_until": "start"}).until == "start"
    assert policy({"unique_for": 60, "unique_until": "retention"}).until == ""


def test_what_the_message_says_is_what_was_asked_for():
    asked = {"unique_for": 5.0, "unique_until": "start", "unique_scope": "acme", "on_conflict": "replace"}
    assert policy(dict(asked)).headers == asked
    assert policy({"headers": asked}) == policy(dict(asked))


def test_a_scope_of_a_task_is_filled_with_the_arguments_and_that_of_a_call_is_taken_as_it_is():
    class Task:
        unique_scope = "tenant:{tenant}"

        @staticmethod
        def run(tenant, x):
            return x

    assert policy(task=Task, args=("acme", 1)).scope == "tenant:acme"
    assert policy({"unique_scope": "{tenant}"}, task=Task, args=("acme", 1)).scope == "{tenant}"
    with pytest.raises(InvalidKey, match="the arguments do not fit"):
        policy(task=Task, args=())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"unique_for": 0}, "above 0"),
        ({"unique_for": -1}, "above 0"),
        ({"unique_for": "60"}, "above 0"),
        ({"unique_for": True}, "above 0"),
        ({"unique_for": float("nan")}, "above 0"),
        ({"unique_for": float("inf")}, "above 0"),
        ({"unique_for": 3601}, "longer than the 3600 s"),
        ({"unique_until": "started"}, "did you mean 'start'"),
        ({"unique_until": 7}, "must be one of start, completed, retention"),
        ({"on_conflict": "run-again"}, "did you mean 'run_again'"),
        ({"on_conflict": "later"}, "must be one of return, raise, replace, run_again"),
        ({"on_conflict": ["raise"]}, "did you mean 'raise'"),
        ({"on_conflict": "run_again", "unique_until": "start"}, "on_conflict='replace'"),
    ],
)
def test_a_policy_that_cannot_be_meant_says_what_can(options, says):
    with pytest.raises(InvalidUniqueness, match=says):
        policy(options)


@pytest.mark.parametrize("scope", ["", 7, "x" * 256, "\ud800"])
def test_a_scope_is_a_text_as_a_key_is(scope):
    with pytest.raises(InvalidKey, match="unique_scope"):
        policy({"unique_scope": scope})


def test_a_task_is_checked_when_it_is_made(bench):
    with pytest.raises(ConfigurationError, match=r"task .*: on_conflict='replcae': did you mean 'replace'"):
        bench.task(name="t.bad", lazy=False, on_conflict="replcae")(key_of_arguments)

    class Good:
        name, unique_for, unique_until = "t.good", 60, "start"

    check_uniqueness(Good)


def test_the_key_of_arguments_is_the_same_for_the_same_arguments():
    assert key_of_arguments((1, [2]), {"a": 3}) == key_of_arguments([1, (2,)], {"a": 3})
    assert key_of_arguments((1,), {}) != key_of_arguments((2,), {})


# ---- what becomes of a key --------------------------------------------------------------------------


def test_until_start_frees_the_key_when_the_first_attempt_begins(bench, sync):
    ids = []
    sync.during.append(lambda: ids.append(sync.apply_async((1,), unique_until="start").id))
    first = sync.apply_async((1,), unique_until="start")
    assert sync.apply_async((1,), unique_until="start").id == first.id
    bench.run_all()
    assert ids[0] != first.id
    assert sync.ran == [1, 1]


def test_until_completed_frees_the_key_at_the_end(bench, sync):
    ids = []
    sync.during.append(lambda: ids.append(sync.delay(1).id))
    first = sync.apply_async((1,), unique_until="completed")
    bench.run_all()
    assert ids == [first.id]
    assert sync.delay(1).id != first.id


def test_a_period_keeps_the_key_of_a_completed_job_and_no_longer(bench, sync, valkey):
    first = sync.apply_async((1,), unique_for=50)
    digest = bench.record(first.id).digest
    bench.run_all()
    assert sync.delay(1).id == first.id
    assert 0 < valkey.pttl(bench.pulse.keys.idempotency(digest)) <= 50_000


def test_a_period_that_is_over_never_frees_the_key_of_a_job_that_is_not(bench, sync, valkey):
    ids = []
    first = sync.apply_async((1,), unique_for=0.001)
    now = valkey.time()
    while valkey.time()[0] * 10**6 + valkey.time()[1] < now[0] * 10**6 + now[1] + 2000:
        pass
    sync.during.append(lambda: ids.append(sync.delay(1).id))
    bench.run_all()
    assert ids == [first.id]
    assert sync.delay(1).id != first.id


def test_a_failure_frees_the_key_within_its_period(bench, sync):
    def fail():
        raise ValueError

    sync.during.append(fail)
    first = sync.apply_async((1,), unique_for=50)
    bench.run_all()
    assert sync.delay(1).id != first.id


@pytest.mark.parametrize("task_id", [None, "a", "b", "c", "d"])
def test_start_and_period_hold_for_an_id_that_was_given(bench, sync, valkey, task_id):
    job = sync.apply_async((1,), task_id=task_id, unique_until="start", unique_for=50)
    digest = bench.record(job.id).digest
    key, left = bench.pulse.keys.idempotency(digest), []
    sync.during.append(lambda: left.append(valkey.pttl(key)))
    bench.run_all()
    assert 0 < left[0] <= 50_000
    assert 0 < valkey.pttl(key) <= 50_000


def test_the_same_key_in_another_scope_is_another_key(bench, sync):
    ids = {sync.apply_async((n,), unique_scope=scope).id for n, scope in ((1, "a"), (2, "b"), (3, None))}
    assert len(ids) == 3
    assert sync.apply_async((1,), unique_scope="a").deduplicated is True
    with pytest.raises(IdempotencyConflict):
        sync.apply_async((1,), unique_scope="b")


def test_a_job_without_a_key_is_unique_by_its_arguments(bench):
    @bench.task(name="t.args", unique_until="completed")
    def by_arguments(n):
        return n

    first = by_arguments.delay(1)
    assert by_arguments.delay(1).id == first.id
    assert by_arguments.delay(2).id != first.id
    bench.run_all()
    assert by_arguments.delay(1).id != first.id


def test_a_bad_policy_is_refused_before_anything_is_written(bench, sync, valkey):
    with pytest.raises(InvalidUniqueness, match="did you mean 'replace'"):
        sync.apply_async((1,), on_conflict="replaced")
    assert valkey.dbsize() == 0
