from __future__ import annotations

from denyut.tasks.leaving import before_leaving, leaving


def test_the_heartbeat_is_told_of_a_job_before_it_is_ended():
    told = []
    before_leaving(told.append)
    leaving("j")
    before_leaving(None)
    leaving("k")
    assert told == ["j"]
