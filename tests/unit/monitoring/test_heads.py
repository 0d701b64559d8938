"""A little of many records at once."""

from __future__ import annotations

from denyut.monitoring import heads
from denyut.monitoring.heads import Head, read_heads


def test_jobs_of_all_partitions_are_read_also_those_that_are_not_there(desk, monkeypatch):
    monkeypatch.setattr(heads, "_CHUNK", 2)
    ids = [f"j{n}" for n in range(60)]
    for n, job_id in enumerate(ids):
        if n % 3:
            desk.record(job_id, "RUNNING", task=f"t{n}", started_at=n)
    found = read_heads(desk.pulse, desk.client, ids)
    assert found == {
        job_id: Head("RUNNING", f"t{n}", n, 0) if n % 3 else Head("", "", 0, 0)
        for n, job_id in enumerate(ids)
    }


def test_an_ended_job_has_its_end(desk):
    desk.record("j", "FAILED", started_at=5, finished_at=9)
    assert read_heads(desk.pulse, desk.client, ["j"])["j"] == Head("FAILED", "t.work", 5, 9)


def test_of_no_jobs_nothing_is_asked(desk):
    assert read_heads(desk.pulse, desk.client, []) == {}
