"""Judges of what moves jobs on that are left alone."""

from __future__ import annotations

import json
from typing import Any

from model.faults import Violation
from model.judge_claim import blame, budget, crash, stop
from model.oracle import WAITING, Args, Names, Oracle, View, code_of

from denyut.states import Event, State


def judge_recover(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    job_id, why = a[0], a[1]
    view = o.view(job_id)
    dead = why == "child" and view.owner == a[2] and view.pid == a[3]
    dead = dead and (view.state == State.RUNNING or view.lease == f"{a[2]}#{view.fence}")
    owned = bool(view.lease) and not dead
    if view.state == State.RUNNING and view.cancel and not owned:
        stop(o, job_id, view)
    if view.state == State.RUNNING:
        if not owned and view.lease and not o.is_dead(view.owner, view.pid):
            raise Violation("a living process was taken for dead")
        _recover_running(o, a, view, answer, dead=dead, owned=owned)
    elif view.state == State.QUEUED:
        o.expect(answer, _adrift(o, a, view))
        if code_of(answer) == "PUBLISH":
            view.waits = 0 if why == "turn" else view.waits
    elif (
        view.state is None
        or view.state in WAITING
        or view.settled
        or owned
        or (
            not view.lease
            and o.seen.parts[o.keys.partition_of(job_id)].leases.get(job_id, 0) > o.now
            and (o.seen.job(job_id).record.get("state") == view.state)
        )
    ):
        o.expect(answer, "NOTHING")
    elif view.state in (State.EXPIRED, State.DEAD, State.CANCELLED):
        o.expect(answer, view.state)
        view.lease = ""
        o.grant(a[0], int(answer[2]), "recovery", view.pid, view.token, int(a[7]))
    else:
        o.expect(answer, "PUBLISH")
        view.gen, view.lease = view.gen + 1, ""
    if code_of(answer) == "PUBLISH" and int(answer[4]) != view.gen:
        raise Violation(f"published generation {answer[4]}, the record has {view.gen}")


def _recover_running(o: Oracle, a: Args, view: View, answer: Any, *, dead: bool, owned: bool) -> None:
    if owned:
        o.expect(answer, "NOTHING")
        return
    what = blame(o, view, a[11] or ("child" if dead else ""))
    if what == "judge":
        o.expect(answer, "JUDGE")
        return
    crash(view, what)
    view.lease = ""
    if what != "crashed" or view.crashes <= budget(view, int(a[5])):
        waits = what != "drained" and view.suspect > 1  # from the second shared death on
        o.expect(answer, "SUSPECT" if waits else "PUBLISH")
        o.fire(view, Event.CRASH)
        view.gen += 1
        view.waits = view.gen if waits else view.waits
        return
    o.expect(answer, "DEAD")
    o.fire(view, Event.BURY)
    view.letter = True
    o.histories[a[0]].owes = True
    o.grant(a[0], int(answer[2]), "recovery", view.pid, view.token, int(a[7]))


def _adrift(o: Oracle, a: Args, view: View) -> str:
    """Whether a queued job is to be published again, or waits for its turn."""
    waits = view.waits == view.gen
    deadline = o.seen.parts[o.keys.partition_of(a[0])].held.get(a[0], 0)
    if view.replaced or (waits and deadline > o.now and a[1] != "turn"):
        return "NOTHING"
    if a[1] == "turn":
        return "PUBLISH" if waits else "NOTHING"
    if waits:
        return "SUSPECT"
    if a[1] == "child":
        lost = a[4] in ("0", str(view.gen))
    else:
        lost = deadline <= o.now and (deadline > 0 or a[1] == "lost")
    return "PUBLISH" if lost else "NOTHING"


def judge_due(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    expired = 0 < view.expires <= o.now
    if view.state not in WAITING or (view.due > o.now and not expired):
        o.expect(answer, "NOTHING")
        return
    grace = json.loads(a[3])[""] if a[3] else None
    first = view.state == State.SCHEDULED and view.attempt == 0 and not view.follows
    if expired or (grace is not None and first and o.now - view.due > grace):
        o.expect(answer, "EXPIRED")
        o.fire(view, Event.EXPIRE)
        o.grant(a[0], int(answer[2]), "schedule", view.pid, view.token, int(a[2]))
        return
    o.expect(answer, "PUBLISH")
    o.fire(view, Event.DUE)
    if int(answer[4]) != view.gen:
        raise Violation(f"published generation {answer[4]}, the record has {view.gen}")


def judge_overdue(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    for job_id in answer[0]:
        if o.jobs[job_id].lease and o.seen.parts[o.keys.partition_of(job_id)].leases[job_id] > o.now:
            raise Violation(f"the lease of {job_id} has not lapsed")


def judge_park(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    newest = view.state == State.QUEUED and view.gen == max(1, int(a[1]))
    o.expect(answer, "1" if newest else "0")
    if newest:
        o.fire(view, Event.PARK)
        view.gen, view.due = view.gen + 1, o.now + int(a[2])


def judge_turn(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    if answer[1] and answer[0]:
        raise Violation("two suspects have their turn at once")


def judge_line_up(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    o.expect(answer, "0", "1")


def judge_purge(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    view = o.view(a[0])
    if not view.letter:
        o.expect(answer, "NONE")
    elif not view.settled:
        o.expect(answer, "UNSETTLED")
    else:
        o.expect(answer, "PURGED")
        retention = round(float(o.seen.job(a[0]).record["retention"]) * 1e6)
        finished = o.seen.job(a[0]).number("finished_at")
        view.letter, view.gone_at = False, finished + retention
        if view.gone_at <= o.now:
            o.jobs[a[0]] = View()


def judge_old_dead(o: Oracle, keys: Names, a: Args, answer: Any) -> None:
    for job_id in answer:
        if not o.jobs[job_id].letter:
            raise Violation(f"{job_id} is no dead letter")
