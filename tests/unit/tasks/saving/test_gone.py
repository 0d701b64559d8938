"""What is remembered of a job that is gone."""

from __future__ import annotations

from denyut.states import State
from denyut.tasks.saving.gone import Gone


def test_it_says_how_the_job_ended_and_until_when_it_was_known():
    gone = Gone(state=State.COMPLETED, finished_at=1, gone_at=1_796_000_000_500_000)
    assert str(gone) == "it was COMPLETED, and its retention ended at 2026-11-30T00:53:20Z"
