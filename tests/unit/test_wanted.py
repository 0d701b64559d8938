"""Filters of lists."""

from __future__ import annotations

from denyut.states import State
from denyut.wanted import Wanted


def test_without_a_filter_every_job_fits_and_no_job_is_none():
    assert Wanted().fits("QUEUED", "t", "")
    assert not Wanted().fits("", "", "")


def test_every_filter_must_fit():
    wanted = Wanted(state=State.FAILED, task="t", key="k")
    assert wanted.fits("FAILED", "t", "k")
    for other in (("QUEUED", "t", "k"), ("FAILED", "u", "k"), ("FAILED", "t", "")):
        assert not wanted.fits(*other)
