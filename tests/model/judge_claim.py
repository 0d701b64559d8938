"""Judge of the claim, and who is to blame for an attempt that was cut short."""

from __future__ import annotations

from typing import Any

from model.faults import Violation
from model.judge_enqueue import _confirm
from model.oracle import WAITING, Args, Names, Oracle, View

from denyut.states import Event, State


def judge_claim(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    job_id, gen = a[0], int(a[4])
    view = o.view(job_id)
    if view.state is None:
        is_over = a[5] and a[5] == o.marker(job_id) and o.now - int(a[6]) >= int(a[10])
        if is_over or not a[13]:
            o.expect(answer, "DONE" if is_over else "UNRECORDED")
            return
        more = {"follows": a[15], "conflict": a[16], "digest": a[18], "fp": a[19]}
        view = o.accept(job_id, state=State.QUEUED, gen=max(1, gen), **more)
        _confirm(o, job_id, keys)
    if view.state == State.RUNNING and not view.lease and view.cancel:
        stop(o, job_id, view)
    again = view.token == a[3] and view.lease == f"{a[1]}#{view.fence}"
    if again and view.state == State.RUNNING:
        o.expect(answer, "CONFLICT" if view.conflict else "CLAIMED")
        _same_fence(view, answer)
    elif view.terminal:
        _claim_ended(o, a, view, answer, again=again)
    elif 0 < gen < view.gen or (view.state in WAITING and view.due > o.now):
        o.expect(answer, "STALE")
    elif view.state == State.RUNNING and view.lease:
        o.expect(answer, "BUSY")
    elif view.follows and a[14] != "own":
        o.expect(answer, "FOLLOW")
    else:
        _claim_live(o, a, view, answer)


def _claim_ended(o: Oracle, a: Args, view: View, answer: Any, *, again: bool) -> None:
    if view.settled:
        o.expect(answer, "DONE")
    elif again:
        o.expect(answer, "REPLAY", "DEAD")
        _same_fence(view, answer)
    elif view.lease:
        o.expect(answer, "BUSY")
    else:
        o.expect(answer, "REPLAY")
        o.grant(a[0], int(answer[1]), a[1], a[2], a[3], int(a[7]))
        if answer[7] != view.state or (view.ended_by and answer[8] != view.result):
            raise Violation(f"replays another outcome than {view.state} {view.result}")


def _claim_live(o: Oracle, a: Args, view: View, answer: Any) -> None:
    if view.state == State.RUNNING:
        what = blame(o, view, a[20])
        if what == "judge":
            o.expect(answer, "JUDGE")
            return
        crash(view, what)
        if what == "crashed" and view.crashes > budget(view, int(a[9])):
            o.expect(answer, "DEAD")
            o.fire(view, Event.BURY)
            view.letter = True
            o.histories[a[0]].owes = True
            o.grant(a[0], int(answer[1]), a[1], a[2], a[3], int(a[7]))
            return
    o.expect(answer, "CONFLICT" if view.conflict else "CLAIMED")
    o.fire(view, Event.CLAIM)
    o.grant(a[0], int(answer[1]), a[1], a[2], a[3], int(a[7]))
    view.attempt, view.started = view.attempt + 1, o.now
    o.histories[a[0]].bodies += 1
    told = "" if view.conflict else view.checkpoint
    if int(answer[2]) != view.attempt or int(answer[3]) != view.crashes or answer[4] != told:
        raise Violation(f"attempt {view.attempt}, crashes {view.crashes}, checkpoint {view.checkpoint!r}")


def _same_fence(view: View, answer: Any) -> None:
    if int(answer[1]) != view.fence:
        raise Violation(f"a repeated claim must keep its fence {view.fence}")


def budget(view: View, most: int) -> int:
    """An attempt that may have committed its effect gives the job a budget more, to find out."""
    return 2 * most + 1 if view.committing else most


def blame(o: Oracle, view: View, known: str) -> str:
    """Who is to blame for an attempt that was cut short: its worker's end, itself, or perhaps itself."""
    if known == "drained" or view.draining == view.fence:
        soon = o.now - view.started < 60_000_000
        view.drains = view.drains + 1 if soon else 0
        return "drained" if view.drains <= 10 else "crashed"
    if known == "shared" and view.suspect < 5:
        view.suspect += 1
        return "suspected"
    return "crashed" if known else "judge"


def crash(view: View, what: str) -> None:
    view.crashes += what == "crashed"
    view.crashed_fence = view.fence


def stop(o: Oracle, job_id: str, view: View) -> None:
    """A cancelled job ends by another hand than its attempt's; Celery has still to be told."""
    o.fire(view, Event.CANCEL)
    view.lease, view.settled, view.replaced = "", False, False
    o.fence_off(job_id)


def judge_refollow(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    o.expect(answer, "1" if view.state else "0")
    view.follows = a[1] if view.state else view.follows
