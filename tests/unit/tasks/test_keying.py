from __future__ import annotations

import pytest

from denyut.errors import InvalidKey
from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.key import digest_of, draw_id
from denyut.tasks.keying import hold_key, key_of_call, key_of_message


class Task:
    idempotency_key = "t:{x}"

    @staticmethod
    def run(x):
        return x


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"idempotency_key": "a", "headers": {"idempotency_key": "b"}}, "a"),
        ({"headers": {"idempotency_key": "b"}}, "b"),
        ({"headers": None}, "t:1"),
        ({}, "t:1"),
    ],
)
def test_argument_before_header_before_template(options, expected):
    assert key_of_call(Task, (1,), {}, options) == expected
    assert "idempotency_key" not in options


def test_a_task_without_a_template_has_no_key():
    assert key_of_call(None, (1,), {}, {}) is None


def test_an_empty_key_is_an_error_and_not_no_key():
    with pytest.raises(InvalidKey):
        key_of_call(Task, (1,), {}, {"idempotency_key": ""})


def test_a_held_key_answers_who_holds_it(bench):
    assert hold_key(bench.pulse, "one", "d" * 40, "fp") == ("HELD", "one")
    assert hold_key(bench.pulse, "one", "d" * 40, "fp") == ("HELD", "one")
    assert hold_key(bench.pulse, "two", "d" * 40, "fp") == ("DUPLICATE", "one")
    assert hold_key(bench.pulse, "two", "d" * 40, "other") == ("CONFLICT", "one")


def test_a_key_is_its_jobs_own_whatever_the_arguments_are_by_now(bench):
    assert hold_key(bench.pulse, "one", "d" * 40, "fp") == ("HELD", "one")
    assert hold_key(bench.pulse, "one", "d" * 40, "newer") == ("HELD", "one")


def test_a_held_key_never_stays_for_ever(bench, valkey):
    hold_key(bench.pulse, "one", "d" * 40, "fp")
    assert valkey.ttl(bench.pulse.keys.idempotency("d" * 40)) > 0


def test_a_key_is_free_soon_if_its_process_died_before_the_job_had_a_record(bench, valkey):
    keys, digest = bench.pulse.keys, "d" * 40
    here = draw_id(keys, digest)
    hold_key(bench.pulse, here, digest, "fp")
    assert 0 < valkey.ttl(keys.idempotency(digest)) <= 60


def test_with_its_record_a_job_has_the_key_for_good(bench, valkey):
    @bench.task(name="t.keyed")
    def keyed():
        pass

    keys, digest = bench.pulse.keys, digest_of("t.keyed", "k")
    keyed.apply_async(task_id=draw_id(keys, digest), idempotency_key="k")
    assert valkey.ttl(keys.idempotency(digest)) == -1


def test_a_job_that_is_sent_again_keeps_its_key_for_good(bench, valkey):
    @bench.task(name="t.keyed")
    def keyed():
        pass

    keys, digest = bench.pulse.keys, digest_of("t.keyed", "k")
    again = {"task_id": draw_id(keys, digest), "idempotency_key": "k"}
    keyed.apply_async(**again)
    keyed.apply_async(**again)
    assert valkey.ttl(keys.idempotency(digest)) == -1


def test_a_plain_message_without_a_key_has_none(bench):
    @bench.task(name="t.noop")
    def noop():
        pass

    assert key_of_message(bench.pulse, noop, "j", {}).digest == ""


@pytest.fixture
def given(bench):
    """A keyed job whose id was given, in another partition than its key."""
    fail = []

    @bench.task(name="t.given", idempotency_key="k:{n}")
    def given(n):
        if fail:
            raise ValueError(n)
        return n

    keys = bench.pulse.keys
    digest = digest_of("t.given", "k:1")
    given.far = next(
        f"id-{i}" for i in range(99) if keys.partition_of(f"id-{i}") != keys.partition_of(digest)
    )
    given.entry = keys.idempotency(digest)
    given.fail = fail
    return given


def test_the_key_of_a_completed_job_with_a_given_id_answers_for_its_retention(bench, given, valkey):
    given.apply_async((1,), task_id=given.far)
    bench.drain()
    assert 3500 < valkey.ttl(given.entry) <= 3600
    assert given.delay(1).id == given.far
    valkey.delete(bench.pulse.keys.job(given.far).record)  # its retention is over
    fresh = given.delay(1)
    assert (fresh.deduplicated, fresh.id != given.far) == (False, True)


@pytest.mark.parametrize("how", ["failed", "cancelled", "dead"])
def test_the_key_of_a_job_with_a_given_id_is_free_after_any_other_end(bench, given, valkey, how):
    from denyut.states import State
    from denyut.tasks.cancel import end_from_outside
    from denyut.tasks.recover import recover

    given.apply_async((1,), task_id=given.far)
    if how == "failed":
        given.fail.append(1)
        bench.drain()
        given.fail.clear()
    elif how == "cancelled":
        bench.messages()
        end_from_outside(bench.pulse, given.far, State.CANCELLED, retention=None, running=False)
    else:
        record = bench.pulse.keys.job(given.far).record
        valkey.hset(record, mapping={"state": "RUNNING", "crashes": 99, "started_at": 1})
        assert recover(bench.pulse, given.far, "lapsed") == "DEAD"
    assert not valkey.exists(given.entry)
    assert given.delay(1).deduplicated is False


def test_a_key_left_over_by_a_job_that_failed_is_freed_at_the_next_enqueue(bench, given, valkey):
    given.apply_async((1,), task_id=given.far)
    bench.drain()
    valkey.hset(bench.pulse.keys.job(given.far).record, "state", "FAILED")  # died before it freed the key
    assert given.delay(1).deduplicated is False


def test_a_call_that_is_sent_again_after_its_job_has_failed_leaves_the_key_free(bench):
    """Its reply was lost: the first sending held the key, the job has failed meanwhile, and freed it."""

    @bench.task(name="t.noop")
    def noop(n):
        pass

    first = noop.apply_async((1,), idempotency_key="k", task_id="given")
    end_from_outside(bench.pulse, first.id, State.FAILED, retention=None, running=True)
    again = noop.apply_async((1,), idempotency_key="k", task_id="given")
    assert again.deduplicated
    assert noop.apply_async((1,), idempotency_key="k").deduplicated is False
