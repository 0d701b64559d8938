from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from snapshot import Snapshot
from statuses import job
from view import LiveView, PlainView, make_view

from denyut.median.read import Reading
from denyut.states import State


def reading(stream, value, count, duplicates=0):
    return Reading(
        stream=stream,
        count=count,
        value=value,
        lower=value,
        upper=value,
        quantile=0.5,
        version=1,
        updated_at=None,
        duplicates=duplicates,
        conflicts=0,
    )


SNAPSHOT = Snapshot(
    jobs={
        "2013-01": job(State.RUNNING, attempt=2, progress=0.5, stage="RESUMING", owner="w1@demo|x"),
        "2013-02": job(State.COMPLETED, attempt=1, owner="w2@demo|x"),
    },
    medians={
        "dep_delay:UA": reading("dep_delay:UA", -1.5, 1200, 7),
        "arr_delay:UA": reading("arr_delay:UA", -6.0, 1000),
    },
    settled=False,
)


def test_without_a_terminal_the_view_is_plain_lines(capsys):
    view = make_view()
    assert isinstance(view, PlainView)
    view.say("SIGKILL")
    view.show(SNAPSHOT)
    view.show(SNAPSHOT)  # too soon for another line
    view.close()
    first, second = capsys.readouterr().out.splitlines()
    assert first == "   0.0 s  SIGKILL"
    assert second.endswith("jobs: 1 running, 1 completed, 75% | 2,200 events in 2 medians, 7 came again")


def shown(width):
    out = StringIO()
    view = LiveView(Console(file=out, force_terminal=True, width=width, height=50, color_system=None))
    view.say("SIGKILL to [everybody]")
    view.show(SNAPSHOT)
    view.close()
    return out.getvalue()


def test_a_terminal_shows_jobs_medians_and_what_happened():
    text = shown(130)
    for words in ("2013-01", "RESUMING", "w1@demo", "running", "0.5 s", "UA", "-1.5", "-6", "2,200"):
        assert words in text
    assert text.rstrip().endswith("SIGKILL to [everybody]"), "what happened stays"


def test_a_narrow_terminal_shows_the_jobs_and_sums_the_medians_up():
    text = shown(80)
    assert "2,200 events in 2 medians" in text
    assert "-1.5" not in text


@pytest.mark.parametrize("width", [40, 80, 118, 200])
def test_no_width_is_an_error(width):
    assert "2,200" in shown(width)
