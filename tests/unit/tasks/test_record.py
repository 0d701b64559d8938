from __future__ import annotations

from denyut.states import State
from denyut.tasks.record import FIELDS, JobRecord


def test_no_state_is_no_record():
    assert JobRecord.from_redis("j", [None] * len(FIELDS)) is None


def test_every_field_is_read_as_what_it_is():
    text = {
        "task": "t", "queue": "q", "state": "FAILED", "gen": "2", "attempt": "3", "failures": "1",
        "crashes": "1", "fence": "1796087629879467", "version": "9", "owner": "w|b", "pid": "7",
        "settled": "1", "error": '["ValueError", "no"]', "checkpoint": "[1]", "finished_at": "5",
        "cancel": '["JobCancelled", "cancelled by me"]',
    }  # fmt: skip
    record = JobRecord.from_redis("j", [text[f].encode() if f in text else None for f in FIELDS])
    assert record == JobRecord(
        id="j", task="t", queue="q", state=State.FAILED, generation=2, attempt=3, failures=1, crashes=1,
        fence=1796087629879467, version=9, owner="w|b", pid=7, settled=True, error=("ValueError", "no"),
        checkpoint=[1], finished_at=5, cancel="cancelled by me",
    )  # fmt: skip
