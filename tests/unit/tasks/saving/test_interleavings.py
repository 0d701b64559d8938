"""No order of changes, reads, writes, confirmations, crashes and delays brings an old state back.

Any number of writers are each at one of three points: they have read a job, have written it, or have
confirmed it. Hypothesis moves them in any order, lets them die, repeats what they have sent (a lost reply),
and changes the jobs in between. At every step no row has gone back; at the end both are equal.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from denyut.states import State
from denyut.tasks.cancellation import cancel_waiting
from denyut.tasks.recovery import Recovery
from denyut.tasks.reschedule import reschedule
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.snapshot import read_snapshots
from denyut.tasks.saving.writer import confirm, write

CHANGES = ("run", "crash", "cancel", "later", "enqueue", "recover")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["run", "read", "write", "confirm"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(CHANGES), st.integers(0, 3)),
    st.tuples(st.just("read"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["write", "confirm", "die", "repeat"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["apply", "lose confirmation"]), st.just(0)),
)


class Play:
    """Jobs that change, and writers at work."""

    def __init__(self, shelves) -> None:
        self.shelves = shelves
        self.pulse, self.client = shelves.pulse, shelves.client
        self.ids: list[str] = []
        self.writers: list[SimpleNamespace] = []
        self.seen: dict[str, int] = {}
        self.applier = Applier(self.pulse)

    def step(self, what: str, who: int) -> None:
        if what in ("write", "confirm", "die", "repeat"):
            self.move(what, who)
        elif what == "read" and self.ids:
            snapshots = read_snapshots(self.pulse, self.client, [self.ids[who % len(self.ids)]])
            self.writers.append(SimpleNamespace(snapshots=snapshots, written=False, refused={}))
        elif what == "apply":
            self.applier.step()
        elif what == "lose confirmation":
            for writer in self.writers:
                if writer.written:
                    confirm(self.pulse, self.client, writer.snapshots, writer.refused)
        else:
            self.change(what, who)
        self.check()

    def move(self, what: str, who: int) -> None:
        if not self.writers:
            return
        writer = self.writers[who % len(self.writers)]
        if what == "die":
            self.writers.remove(writer)
        elif what in ("write", "repeat"):
            writer.refused = write(self.pulse, [each for each in writer.snapshots if each.row])
            writer.written = True
        elif writer.written:
            confirm(self.pulse, self.client, writer.snapshots, writer.refused)

    def change(self, what: str, who: int) -> None:
        if what == "enqueue" or not self.ids:
            delay = 60 if who == 3 else None
            self.ids.append(self.shelves.work.apply_async((who == 1,), countdown=delay).id)
            return
        job_id = self.ids[who % len(self.ids)]
        if what == "run":
            self.shelves.inside = self.applier.step if who > 1 else lambda: None
            for message in self.shelves.bench.messages():
                self.shelves.bench.run(message)
        elif what == "crash":
            self.shelves.bench.crash(job_id)
        elif what == "cancel":
            cancel_waiting(self.pulse, job_id, "why")
        elif what == "later":
            reschedule(self.pulse, job_id, countdown=120)
        elif what == "recover":
            Recovery(self.pulse).step()

    def check(self) -> None:
        """No row has gone back, and none is newer than Redis."""
        for job_id in self.ids:
            row = self.shelves.row(job_id)
            if row is None:
                continue
            assert row["version"] >= self.seen.get(job_id, 0)
            assert row["version"] <= int(self.shelves.record(job_id)[b"version"])
            self.seen[job_id] = row["version"]
            if row["version"] < int(self.shelves.record(job_id)[b"version"]):
                assert self.shelves.since(job_id) is not None, "the store misses a change that is not marked"

    def end(self) -> None:
        while self.applier.step():
            pass
        for job_id in self.ids:
            assert self.shelves.stored(job_id) == self.shelves.record(job_id)
            assert self.shelves.since(job_id) is None
            told = self.client.xrange(self.pulse.keys.job(job_id).events)
            assert self.shelves.stories(job_id) == [entry[b"type"].decode() for _, entry in told]
        # Those that are late may still write what they have read.
        for who in range(len(self.writers)):
            self.move("write", who)
            self.move("confirm", who)
        for job_id in self.ids:
            assert self.shelves.stored(job_id) == self.shelves.record(job_id)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=15, max_size=60))
def test_the_store_never_goes_back_and_ends_equal_to_redis(shelves, steps):
    play = Play(shelves)
    for what, who in steps:
        play.step(what, who)
    play.end()
    shelves.bench.messages()


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED])
def test_the_play_reaches_ends(shelves, state):
    play = Play(shelves)
    play.step("enqueue", int(state == State.FAILED))
    play.step("run", 0)
    assert shelves.bench.record(play.ids[0]).state == state
    play.end()
