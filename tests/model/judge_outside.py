"""Judges of what others than its attempt do to a job."""

from __future__ import annotations

from typing import Any

from model.judge_claim import stop
from model.oracle import ENDS, WAITING, Args, Names, Oracle, code_of

from denyut.states import Event, State


def judge_end(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view, state = o.view(a[0]), State(a[1])
    meant = not a[5] or (view.owner == a[5] and view.pid == a[6])
    live = view.state is not None and not view.terminal
    waits = live and view.state != State.RUNNING
    received = view.state == State.QUEUED and view.gen == max(1, int(a[10]))
    ends = (waits and (not a[5] or received)) or (live and not waits and a[4] == "1" and meant)
    o.expect(answer, "1" if ends else "0")
    if ends:
        o.fire(view, ENDS[state])
        view.letter = bool(a[9])
        view.replaced = False
        o.fence_off(a[0])
        o.close(a[0], int(a[3]), o.is_here(a[0], keys))


def judge_cancel(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    if view.state is None:
        o.expect(answer, "UNKNOWN")
    elif view.state == State.CANCELLED and view.token == a[3]:
        o.expect(answer, "CANCELLED")
    elif view.state == State.RUNNING and a[5] == "1":
        o.expect(answer, "SPARED")
    elif view.state == State.RUNNING and view.lease:
        o.expect(answer, "REQUESTED")
        view.cancel = True
    elif view.terminal:
        o.expect(answer, "ENDED")
    else:
        o.expect(answer, "CANCELLED")
        stop(o, a[0], view)
        view.cancel, view.token = True, a[3]
        o.give_lease(view, f"recovery#{view.fence}", int(a[4]))


def judge_release(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    again = view.state == State.QUEUED and view.enq == a[3]
    if view.state is None:
        o.expect(answer, "UNKNOWN")
    elif not again and view.state != State.RUNNING:
        o.expect(answer, "OTHER")
    elif view.cancel and not again:
        o.expect(answer, "STOPPING")
    else:
        o.expect(answer, "PUBLISH")
        if not again:
            o.fire(view, Event.REQUEUE)
            view.gen, view.enq, view.lease = view.gen + 1, a[3], ""
            o.fence_off(a[0])


def judge_end_replaced(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    o.expect(answer, "1" if view.state == State.QUEUED and view.replaced else "0")
    if code_of(answer) == "1":
        o.fire(view, Event.FAIL)
        view.replaced, view.letter = False, True
        o.close(a[0], int(a[2]), o.is_here(a[0], keys))


def judge_reschedule(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    again = bool(view.moved) and view.moved == a[2]
    o.expect(answer, "1" if again or view.state in WAITING else "0")
    if not again and view.state in WAITING:
        view.due, view.moved = o.now + int(a[1]), a[2]


def judge_note(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    o.expect(answer, "0", "1")  # only the job's story changes
