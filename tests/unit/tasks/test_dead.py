"""Dead letters: who is one, in which order, and what is known of each."""

from __future__ import annotations

import json

import pytest
from support import DiedError

from denyut.states import State
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.dead import find_dead, is_dead, read_letters
from denyut.tasks.purge import purge_letters
from denyut.tasks.recover import recover


@pytest.fixture
def fails(bench):
    @bench.task(name="t.fails", bind=True, max_retries=2)
    def fails(self, *args, **kwargs):
        raise self.retry(exc=ValueError(f"no {self.request.retries}"), countdown=0)

    return fails


def letter(bench, job_id):
    (found,) = read_letters(bench.pulse, [job_id])
    return found


def test_a_letter_has_the_error_and_traceback_of_every_attempt_and_the_arguments(bench, fails):
    result = fails.apply_async((1, "two"), {"three": 3})
    bench.drain()
    found = letter(bench, result.id)
    assert [(e.attempt, e.type, e.message) for e in found.errors] == [
        (1, "ValueError", "no 0"),
        (2, "ValueError", "no 1"),
        (3, "ValueError", "no 2"),
    ]
    assert all("ValueError" in e.traceback and e.pid and e.owner and e.at for e in found.errors)
    assert (found.args, found.kwargs, found.message) == ("(1, 'two')", "{'three': 3}", True)
    assert found.record.state == State.FAILED
    assert json.dumps(found.as_dict())


def test_only_the_last_ten_errors_are_kept(bench, fails):
    result = fails.apply_async(countdown=None)
    fails.max_retries = 14
    bench.drain()
    assert [e.attempt for e in letter(bench, result.id).errors] == list(range(5, 16))


def test_a_crash_is_among_the_errors_with_its_worker(make_bench):
    bench = make_bench(denyut_max_crashes=0)

    @bench.task(name="t.dies")
    def dies():
        raise DiedError

    result = dies.delay()
    with pytest.raises(DiedError):
        bench.run(bench.messages()[0])
    bench.crash(result.id)
    recover(bench.pulse, result.id, "lapsed")
    found = letter(bench, result.id)
    (error,) = found.errors
    assert (error.attempt, error.type) == (1, "WorkerLost")
    assert "last sign of life" in error.message
    assert error.pid
    assert found.budget == "crashes"


def test_letters_are_listed_newest_first_page_by_page(bench, fails):
    fails.max_retries = 0
    ids = []
    for _ in range(5):
        ids.append(fails.delay().id)
        bench.drain()
    pages, cursor = [], None
    while True:
        page, cursor = find_dead(bench.pulse, limit=2, cursor=cursor)
        pages += page
        if cursor is None:
            break
    assert pages == ids[::-1]


def test_letters_of_one_task_are_found_among_others(bench, fails):
    @bench.task(name="t.other")
    def other():
        raise KeyError("x")

    mine, theirs = fails.apply_async(), other.delay()
    bench.drain()
    assert find_dead(bench.pulse, task="t.other") == ([theirs.id], None)
    assert find_dead(bench.pulse, task="t.fails") == ([mine.id], None)
    assert find_dead(bench.pulse, task="t.none") == ([], None)


@pytest.mark.parametrize("state", [State.CANCELLED, State.EXPIRED, State.REJECTED, State.IGNORED])
def test_an_end_that_spends_no_budget_is_no_letter(bench, fails, state):
    result = fails.delay()
    end_from_outside(bench.pulse, result.id, state, retention=None, running=True)
    assert not is_dead(bench.pulse, result.id)
    assert find_dead(bench.pulse) == ([], None)


def test_a_purged_letter_is_none_any_more(bench, fails):
    result = fails.delay()
    bench.drain()
    assert is_dead(bench.pulse, result.id)
    purge_letters(bench.pulse, [result.id])
    assert not is_dead(bench.pulse, result.id)
    assert not letter(bench, result.id).message


def test_a_message_that_cannot_be_read_hides_nothing_else(bench, fails, valkey):
    result = fails.delay()
    bench.drain()
    valkey.hset(bench.pulse.keys.job(result.id).record, "msg", "no json")
    found = letter(bench, result.id)
    assert (found.args, found.reason) == ("", "2 retries spent (max_retries=2)")


def test_what_has_no_record_is_left_out(bench):
    assert read_letters(bench.pulse, ["nobody"]) == []
