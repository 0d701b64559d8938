"""Judges of what enqueues: reservations, keys, and messages for later."""

from __future__ import annotations

from typing import Any

from model.faults import Violation
from model.oracle import Args, Entry, Names, Oracle, View

from denyut.states import Event, State


def judge_reserve(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    job_id, digest, fp, token, delay = a[0], a[4], a[5], a[6], int(a[8])
    view = o.view(job_id)
    made = "SCHEDULED" if delay > 0 else "RESERVED"
    if view.replaced and not view.terminal:
        o.expect(answer, made)
        view.enq, view.replaced, view.due, view.by = token, False, o.now + delay, a[14]
        keep_expiry(o, view, delay, a[15])
        if delay > 0:
            o.fire(view, Event.PARK)
    elif view.state == State.RUNNING and view.replacing == view.fence:
        o.expect(answer, "SCHEDULED")
        view.coming, view.coming_by = delay, a[14]
    elif view.state is not None and not _is_applied_again(view, a):
        o.expect(answer, made if view.enq == token else "EXISTS")
    elif a[12] == "1" and digest in o.entries:
        entry = o.entries[digest]
        o.expect(answer, "DUPLICATE" if entry.fp == fp else "CONFLICT")
        if answer[1] != entry.job:
            raise Violation(f"the key belongs to {entry.job}")
    else:
        o.expect(answer, made)
        if a[12] == "1":
            o.entries[digest] = Entry(job_id, fp)
        _confirm(o, job_id, keys)
        state = State.SCHEDULED if delay > 0 else State.QUEUED
        more = {"digest": digest, "fp": fp, "follows": a[9], "conflict": a[10], "by": a[14]}
        kept = {"gen": view.gen + 1, "fence": view.fence, "version": view.version}
        view = o.accept(job_id, state=state, enq=token, due=o.now + delay if delay else 0, **more, **kept)
        keep_expiry(o, view, delay, a[15])


def _confirm(o: Oracle, job_id: str, keys: Names) -> None:
    """A key that was held before is the job's for good, now that it has a record."""
    entry = o.entries.get(keys[12].rpartition(":")[2])
    if entry is not None and entry.job == job_id:
        entry.gone_at = 0


def keep_expiry(o: Oracle, view: View, delay: int, left: str) -> None:
    if delay > 0:
        view.expires = max(o.now + int(left), 1) if left else 0


def _is_applied_again(view: View, a: Args) -> bool:
    """A frozen signature of an ended job, dispatched by another than last time."""
    return bool(a[14]) and view.by != a[14] and view.settled and not view.digest and view.enq != a[6]


def judge_unreserve(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    mine = view.enq == a[1] and view.attempt == 0 and view.state in (State.QUEUED, State.SCHEDULED)
    o.expect(answer, "1" if mine else "0")
    if mine:
        o.fire(view, Event.UNPUBLISHED)
        o.close(a[0], int(a[2]), o.is_here(a[0], keys))


def judge_hold_key(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    digest = keys[0].rpartition(":")[2]
    entry = o.entries.get(digest)
    if entry is not None and entry.job != a[0]:
        o.expect(answer, "DUPLICATE" if entry.fp == a[1] else "CONFLICT")
    else:
        o.expect(answer, "HELD")
        o.entries.setdefault(digest, Entry(a[0], a[1], o.now + int(a[2]) * 1000))


def judge_close_key(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    closed = o.close_entry(keys[0].rpartition(":")[2], a[0], int(a[2]) // 1000)  # 0: it has failed
    o.expect(answer, "1" if closed else "0")


def judge_shelve(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    if o.view(a[0]).state is not None:
        o.expect(answer, "EXISTS")
        return
    o.expect(answer, "SCHEDULED")
    more = {"digest": a[8], "fp": a[9], "follows": a[10], "conflict": a[11]}
    view = o.accept(a[0], state=State.SCHEDULED, gen=1, due=o.now + int(a[4]), **more)
    keep_expiry(o, view, int(a[4]), a[5])
    _confirm(o, a[0], keys)
