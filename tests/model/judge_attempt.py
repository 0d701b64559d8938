"""Judges of what an attempt writes, and of its worker's beat."""

from __future__ import annotations

from typing import Any

from model.faults import Violation
from model.judge_enqueue import keep_expiry
from model.oracle import ENDS, Args, Names, Oracle, code_of

from denyut.states import Event, State


def judge_finish(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view, state = o.view(a[0]), State(a[2])
    if view.state is None or str(view.fence) != a[1] or view.state not in (State.RUNNING, state):
        o.expect(answer, "LOST")
        return
    o.expect(answer, "OK")
    if view.settled:  # its reply was lost: nothing is done twice
        return
    if view.state == State.RUNNING:
        o.fire(view, ENDS[state])
        view.result, view.ended_by, view.settled = a[4], view.fence, False
        o.histories[a[0]].owes = a[3] != "1"
        view.letter = bool(a[12])
    if a[3] == "1":
        o.close(a[0], int(a[8]), o.is_here(a[0], keys))
    elif view.lease:
        o.give_lease(view, view.lease, int(a[9]))


def judge_settle(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    if view.state is None or str(view.fence) != a[1] or not view.terminal:
        o.expect(answer, "LOST")
        return
    o.expect(answer, "OK")
    if not view.settled:
        o.close(a[0], int(a[2]), o.is_here(a[0], keys))


def judge_checkpoint(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    mine = view.state == State.RUNNING and str(view.fence) == a[1]
    o.expect(answer, "OK" if mine else "LOST")
    if mine:
        view.checkpoint = a[2]


def judge_commit(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    mine = view.state == State.RUNNING and str(view.fence) == a[1]
    stopped = view.state == State.CANCELLED or (mine and view.cancel)
    o.expect(answer, "CANCELLED" if stopped else "OK" if mine else "LOST")
    view.committing |= mine and not stopped


def judge_once(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view, step, value = o.view(a[0]), a[2], a[3]
    if view.state != State.RUNNING or str(view.fence) != a[1]:
        o.expect(answer, "LOST")
    elif step in view.steps:
        o.expect(answer, "DONE")
    elif len(view.steps) >= int(a[4]):
        o.expect(answer, "FULL")
    else:
        o.expect(answer, "DONE" if value else "UNDONE")
        if value:
            view.steps[step] = value
    if code_of(answer) == "DONE" and answer[1] != view.steps[step]:
        raise Violation(f"step {step} was done with {view.steps[step]}")


def judge_requeue(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view, what, delay = o.view(a[0]), a[2], int(a[4])
    mine = view.state is not None and str(view.fence) == a[1]
    again = mine and view.state != State.RUNNING and view.enq == a[7]
    made = "SCHEDULED" if delay > 0 else "RESERVED"
    if mine and view.state == State.RUNNING and view.cancel:
        made = "CANCELLED"
    o.expect(answer, made if again or (mine and view.state == State.RUNNING) else "LOST")
    if again or code_of(answer) in ("LOST", "CANCELLED"):
        return
    came, view.coming, view.replacing = view.coming, None, 0
    view.enq, view.due, view.lease = a[7], o.now + delay, ""
    if a[3] or what != "replace":
        keep_expiry(o, view, delay, a[10])
    if what == "retry":
        view.failures += 1
        o.fire(view, Event.RETRY)
        if not delay:
            o.fire(view, Event.DUE)
    elif what == "replace":
        o.fire(view, Event.REPLACE)
        if came is not None:
            view.due, view.by, delay = o.now + came, view.coming_by, came
        else:
            view.replaced = not a[3]
        if delay:
            o.fire(view, Event.PARK)
    else:
        o.fire(view, Event.REQUEUE)
    view.gen += what != "requeue"


def judge_announce(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    mine = view.state == State.RUNNING and str(view.fence) == a[1]
    o.expect(answer, "OK" if mine else "LOST")
    if mine:
        view.replacing, view.coming = view.fence, None


def judge_beat(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    jobs = [a[9 + i * 15 : 24 + i * 15] for i in range(int(a[6]))]
    lost, cancelled = [], []
    for place, (job_id, owner, fence, *_, draining) in enumerate(jobs):
        view, mine = o.view(job_id), f"{owner}#{fence}"
        unfinished = view.state == State.RUNNING or (view.terminal and not view.settled)
        newest = str(view.fence) == fence
        if view.lease == mine or (not view.lease and newest and unfinished):
            o.give_lease(view, mine, int(a[0]))
            if view.cancel:
                cancelled.append(place)
            if draining == "1":
                view.draining = int(fence)
        elif view.lease or view.state is None or not newest or place in answer[0]:
            lost.append(place)
            if not (view.lease or view.state is None or not newest) and view.state != State.QUEUED:
                raise Violation("an attempt that has ended by itself is told that it is lost")
    if answer[:2] != [lost, cancelled]:
        raise Violation(f"must tell that the leases at {lost} are lost, and {cancelled} cancelled")
    if answer[2]:
        raise Violation("a job could not be written")
