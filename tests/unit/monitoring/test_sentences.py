"""Each event of a story is one true sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import denyut
from denyut.monitoring.sentences import _SENTENCES, sentence, who
from denyut.tasks.history import JobEvent

PACKAGE = Path(denyut.__file__).parent
OWNERS = {7: "w@h, pid 9"}


def event(kind, **fields):
    given = {"by": "w@h|ab", "pid": 9, "attempt": 2, "fence": 7, "generation": 3, "data": "", **fields}
    return JobEvent(at=1, kind=kind, **given)


CASES = {
    "enqueued by gen1@h": event("enqueued", by="gen1@h", pid=None),
    "enqueued by somebody unknown": event("enqueued", by="", pid=None),
    "attempt 2 began on w@h, pid 9 (generation 3, fence 7)": event("claimed"),
    "attempt 2 lost its worker (v@h, pid 8; fence 7): its last sign of life was 2.3 s before; noticed by "
    "w@h, pid 9": event("crashed", data="2300000", more={"lost": "v@h|cd", "lost_pid": "8"}),
    "attempt 2 lost its worker (v@h, pid 8; fence 7), as did other jobs: it waits for a turn of its own "
    "before anybody is blamed: its last sign of life was 1.0 s before; noticed by w@h, pid 9": event(
        "suspected", data="1000000", more={"lost": "v@h|cd", "lost_pid": "8"}
    ),
    "attempt 2 was cut short: its worker (v@h, pid 8) was told to end; noticed by w@h, pid 9": event(
        "drained", data="1000000", more={"lost": "v@h|cd", "lost_pid": "8"}
    ),
    "published again by w@h, pid 9 as generation 3: its worker was lost": event("published", data="crashed"),
    "a copy of generation 3 was refused on w@h, pid 9: attempt 2 runs under the lease v@h|cd#7": event(
        "busy", data="v@h|cd#7"
    ),
    "a copy of generation 3 was refused on w@h, pid 9: it has ended as completed": event(
        "done", data="COMPLETED"
    ),
    "the same enqueued again by w@h, pid 9 was answered with this job (key k)": event(
        "duplicate", data="key k"
    ),
    "taken away from attempt 2 by hand (by me: stuck)": event("released", data='["stuck", "me"]'),
    "attempt 2 asked for a retry: KeyError: x": event("retrying", data='["KeyError", "x"]'),
    "failed in attempt 2, by w@h, pid 9: KeyError: x": event("failed", data='["KeyError", "x"]'),
    "w@h, pid 9 wanted to write COMPLETED, but had lost its lease: refused (fence 7)": event(
        "lost", data="COMPLETED"
    ),
    "an earlier owner wanted to write retry, but had lost its lease: refused (fence 6)": event(
        "lost", fence=6, data="retry"
    ),
    "recovered in attempt 2, 3.4 s after the last sign of life": event("recovered", data="3400000"),
    "retried by hand by w@h, pid 9: job new": event("retried", data="new"),
    "admin asked it to stop: JobCancelled: enough": event(
        "cancel_requested", by="admin", pid=None, data='["JobCancelled", "enough"]'
    ),
    "given another time: 2023-11-14 22:13:20.123Z": event("rescheduled", data="1700000000123999"),
    "new kind, by w@h, pid 9: something": event("new_kind", data="something"),
}


@pytest.mark.parametrize(("says", "told"), CASES.items(), ids=lambda v: getattr(v, "kind", ""))
def test_a_sentence_says_what_who_and_why(says, told):
    assert sentence(told, OWNERS) == says


def test_refusals_that_are_told_together_say_how_many_they_were():
    assert sentence(event("busy", count=7), OWNERS).endswith(" (7 times more; this is the last)")


def test_a_sentence_is_one_line_of_bounded_length_that_a_terminal_does_not_obey():
    text = sentence(event("checkpoint", data="\x1b[2J\n" + "x" * 1000), OWNERS)
    assert len(text) < 320
    assert text.isprintable()


def test_every_kind_that_a_script_tells_has_a_sentence_of_its_own():
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.lua"))
    kinds = set(re.findall(r"(?:event|often)\('(\w+)'", text)) | {"enqueued", "adopted", "stage"}
    kinds |= {"crashed", "drained", "suspected"}  # as blame.lua says
    assert kinds - {"lost"} <= set(_SENTENCES)


def test_who_leaves_the_random_part_of_a_worker_out():
    assert who("w@h|0a1b", 5) == "w@h, pid 5"
