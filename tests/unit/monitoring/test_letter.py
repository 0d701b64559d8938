"""A dead letter in words."""

from __future__ import annotations

from denyut.monitoring.letter import summary, told
from denyut.states import State
from denyut.tasks.dead import AttemptError, DeadLetter
from denyut.tasks.record import JobRecord

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


def letter(**fields):
    record = JobRecord(
        id="j", task="t.work", queue="q", state=State.FAILED, generation=2, attempt=2, failures=1, crashes=0,
        fence=7, version=3, finished_at=NOW - 90 * SECOND, budget="failures", reason="not retried: KeyError",
    )  # fmt: skip
    error = AttemptError(
        attempt=1, type="KeyError", message="x", traceback="Trace\n  \x1b[2Jline\n", at=NOW - 100 * SECOND,
        owner="w@h|ab", pid=17,
    )  # fmt: skip
    known = {"record": record, "errors": (error,), "args": "(1,)", "kwargs": "{}", "message": True}
    return DeadLetter(**known | fields)


def test_a_row_says_which_budget_and_why():
    row = summary(letter(), NOW)
    assert row == ("j", "t.work", "failures", "not retried: KeyError", 2, "1.5 min ago")


def test_everything_is_told_with_the_traceback_of_each_attempt():
    text = told(letter(), NOW)
    for part in ("reason    not retried: KeyError", "args      (1,)", "message   kept"):
        assert part in text
    assert "attempt 1, 1.7 min ago on w@h, pid 17: KeyError: x" in text
    assert "    Trace" in text


def test_a_task_cannot_write_to_the_terminal_of_who_looks():
    assert "\x1b" not in told(letter(), NOW)


def test_a_letter_without_its_message_says_that_it_cannot_be_retried():
    assert "not kept: it cannot be retried" in told(letter(message=False, errors=()), NOW)
