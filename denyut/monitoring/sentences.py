"""What happened to a job, as sentences: one for each event of its story."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from denyut.monitoring.text import clean, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from denyut.tasks.history import JobEvent

__all__ = ["sentence", "who"]

_LONGEST = 300


def sentence(event: JobEvent, owners: Mapping[int, str]) -> str:
    """Return one line of text for ``event``.

    Args:
        event: of the story.
        owners: who held each fence, for writes that came too late.
    """
    if event.kind == "lost":
        actor = owners.get(event.fence, "an earlier owner")
        text = f"{actor} wanted to write {event.data}, but had lost its lease: refused (fence {event.fence})"
    else:
        text = _SENTENCES.get(event.kind, _other)(event)
    times = f" ({event.count} times more; this is the last)" if event.count > 1 else ""
    return clean(text[:_LONGEST] + times)


def who(by: str, pid: object = None) -> str:
    """Return who did something: ``w@host, pid 17``; the random part of a worker's name is left out."""
    name = by.partition("|")[0] or "somebody unknown"
    return f"{name}, pid {pid}" if pid else name


def _by(event: JobEvent) -> str:
    return who(event.by, event.pid)


def _seconds(text: str) -> str:
    return f"{int(text) / 1e6:.1f} s" if text.lstrip("-").isdigit() else "an unknown time"


def _moment(text: str) -> str:
    return time_text(int(text)) if text.isdigit() else text


def _error(text: str) -> str:
    try:
        kind, message = json.loads(text)
    except (ValueError, TypeError):
        return text
    return f"{kind}: {message}" if message else str(kind)


def _lost(event: JobEvent) -> str:
    return who(event.more.get("lost", ""), event.more.get("lost_pid"))


def _because(text: str) -> str:
    reason, by = json.loads(text)
    return f"by {by}: {reason}" if reason else f"by {by}"


def _crashed(event: JobEvent) -> str:
    lost = _lost(event)
    last = f"its last sign of life was {_seconds(event.data)} before"
    head = f"attempt {event.attempt} lost its worker ({lost}; fence {event.fence})"
    if event.kind == "suspected":
        head += ", as did other jobs: it waits for a turn of its own before anybody is blamed"
    return f"{head}: {last}; noticed by {_by(event)}"


def _published(event: JobEvent) -> str:
    reasons = {
        "crashed": "its worker was lost",
        "drained": "its worker was told to end",
        "suspected": "its turn has come",
        "lost": "its message was nowhere",
        "due": "its time had come",
        "unsettled": "its callbacks were not sent; they are replayed",
    }
    why = reasons.get(event.data, event.data)
    return f"published again by {_by(event)} as generation {event.generation}: {why}"


def _copy(event: JobEvent, why: str) -> str:
    return f"a copy of generation {event.generation} was refused on {_by(event)}: {why}"


def _ended(how: str) -> Callable[[JobEvent], str]:
    def tell(event: JobEvent) -> str:
        attempt = f" in attempt {event.attempt}" if event.attempt else ""
        by = f", by {_by(event)}" if event.by else ""
        why = f": {_error(event.data)}" if event.data else ""
        return f"{how}{attempt}{by}{why}"

    return tell


def _other(event: JobEvent) -> str:
    by = f", by {_by(event)}" if event.by else ""
    data = f": {_error(event.data)}" if event.data else ""
    return f"{event.kind.replace('_', ' ')}{by}{data}"


_SENTENCES: dict[str, Callable[[JobEvent], str]] = {
    "enqueued": lambda e: f"enqueued by {_by(e)}",
    "adopted": lambda e: f"received from a client without Denyut ({_by(e)})",
    "unpublished": lambda e: f"taken back by {_by(e)}: its message could not be published",
    "claimed": lambda e: (
        f"attempt {e.attempt} began on {_by(e)} (generation {e.generation}, fence {e.fence})"
    ),
    "stage": lambda e: f"stage {e.data}",
    "checkpoint": lambda e: f"checkpoint kept: {e.data}",
    "crashed": _crashed,
    "suspected": _crashed,
    "drained": lambda e: (
        f"attempt {e.attempt} was cut short: its worker ({_lost(e)}) was told to end; noticed by {_by(e)}"
    ),
    "recovered": lambda e: (
        f"recovered in attempt {e.attempt}, {_seconds(e.data)} after the last sign of life"
    ),
    "published": _published,
    "due": lambda e: f"its time came, and it was published {_seconds(e.data)} late",
    "busy": lambda e: _copy(e, f"attempt {e.attempt} runs under the lease {e.data}"),
    "done": lambda e: _copy(e, f"it has ended as {e.data.lower()}"),
    "stale": lambda e: _copy(e, f"a newer generation, or a later time, has replaced it ({e.data.lower()})"),
    "restored": lambda e: f"Redis had lost attempt {e.attempt}; its process wrote it again",
    "put_back": lambda e: f"Redis had lost it; it was put back from the job store as {e.data}",
    "replayed": lambda e: f"{_by(e)} began to send what follows ({e.data.lower()}): it had not been sent",
    "duplicate": lambda e: f"the same enqueued again by {_by(e)} was answered with this job ({e.data})",
    "conflict": lambda e: f"an enqueue with other arguments by {_by(e)} was refused ({e.data})",
    "refused": lambda e: f"another enqueue of its key by {_by(e)} was refused ({e.data})",
    "superseded": lambda e: (
        f"given a newer message, of other arguments or another time, by {_by(e)} (generation {e.generation})"
    ),
    "stalled": lambda e: f"{_by(e)} let go of attempt {e.attempt}: {e.data}",
    "overran": lambda e: f"{_by(e)} let go of attempt {e.attempt}: {e.data}",
    "retrying": lambda e: f"attempt {e.attempt} asked for a retry: {_error(e.data) or 'no error was given'}",
    "cancel_requested": lambda e: f"{_by(e)} asked it to stop: {_error(e.data)}",
    "rescheduled": lambda e: f"given another time: {_moment(e.data)}",
    "replaced": lambda e: f"attempt {e.attempt} put task {e.data} in its place",
    "requeued": lambda e: f"attempt {e.attempt} gave its message back",
    "waiting": lambda e: f"waits for job {e.data}, which has its key",
    "completed": _ended("completed"),
    "failed": _ended("failed"),
    "cancelled": _ended("cancelled"),
    "released": lambda e: f"taken away from attempt {e.attempt} by hand ({_because(e.data)})",
    "expired": _ended("expired"),
    "ignored": _ended("ignored"),
    "rejected": _ended("rejected"),
    "dead": lambda e: f"dead: {_error(e.data)}; found by {_by(e)}",
    "settled": lambda _: "what follows (result, callbacks, chord) was sent",
    "retried": lambda e: f"retried by hand by {_by(e)}: job {e.data}",
}
