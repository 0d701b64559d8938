"""Each part of a continuation is sent once, and none is lost, wherever the process dies that sends it."""

from __future__ import annotations

import gc
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from celery import _state, chain, chord, group
from unit.tasks.dying import DiedError, Life, living

from denyut.states import LIVE, State
from denyut.tasks.error_link import CALLED
from denyut.tasks.recover import recover
from denyut.tasks.recovery import Recovery


@pytest.fixture
def bench(make_bench):
    made = make_bench(broker_connection_timeout=1.0)
    before = _state._tls.current_app
    made.app.set_current()  # as in a worker: signatures inside signatures belong to the current app
    _state._set_task_join_will_block(True)  # as in a pool process: nobody subscribes to results
    yield made
    gc.collect()  # results say goodbye to the server when they are collected: while it is there
    _state._set_task_join_will_block(False)
    _state._tls.current_app = before


@dataclass
class Played:
    """What ran: for each name the ids of the jobs that ran it, in order."""

    ran: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: For each message that was run, the commands that its process sent.
    lives: list[Life] = field(default_factory=list)
    died: str = ""
    #: Whether the job whose process died had not ended: its body runs again, rightly.
    unfinished: bool = False


class Play:
    """Runs one canvas again and again, with a death at another place each time."""

    def __init__(self, bench):
        self.bench = bench
        self.played = Played()
        task = bench.task

        @task(name="t.step", bind=True)
        def step(self_, name, *more):
            self.played.ran[name].append(self_.request.id)
            return name

        @task(name="t.gather", bind=True)
        def gather(self_, parts, name):
            self.played.ran[name].append(self_.request.id)
            return [name, parts]

        @task(name="t.fails", bind=True)
        def fails(self_, name, *more):
            self.played.ran[name].append(self_.request.id)
            raise ValueError(name)

        @task(name="t.link")
        def link(request, exc, traceback):
            self.played.ran["in place"].append(request.id)

        @task(name="t.replaces", bind=True)
        def replaces(self_, name, how):
            self.played.ran[name].append(self_.request.id)
            raise self_.replace(self.canvas(how))

        @task(name="t.adds", bind=True)
        def adds(self_, name):
            self.played.ran[name].append(self_.request.id)
            self_.add_to_chord(step.si("added"))
            return name

        self.step, self.gather, self.fails = step, gather, fails
        self.link, self.replaces, self.adds = link, replaces, adds

    def canvas(self, how):
        step, gather, fails, app = self.step.si, self.gather.s, self.fails.si, self.bench.app
        a, b, c = step("a"), step("b"), step("c")
        in_place = self.link.s()
        canvases = {
            "job": lambda: a,
            "job then group": lambda: chain(step("first"), group(a, b, app=app), app=app),
            "group": lambda: group(a, b, app=app),
            "chain": lambda: chain(a, b, c, app=app),
            "chord": lambda: chord([a, b], gather("body"), app=app),
            "chord then job": lambda: chain(group(a, b, app=app), gather("body"), c, app=app),
            "chord with a chain as body": lambda: chord([a, b], chain(gather("body"), c, app=app), app=app),
            "chord with a chord as body": lambda: chain(
                group(a, b, app=app), chord([c, step("d")], gather("body"), app=app), app=app
            ),
            "chord in a chord": lambda: chord(
                [chord([a, b], gather("inner"), app=app), c], gather("body"), app=app
            ),
            "chord that fails": lambda: chord(
                [a, fails("bad").on_error(step("of the member"))],
                gather("body").on_error(in_place).on_error(step("of the body")),
                app=app,
            ),
            "job that fails": lambda: fails("bad").on_error(in_place).on_error(step("of the job")),
            "chain that fails": lambda: (
                chain(a, fails("bad"), b, app=app).on_error(in_place).on_error(step("of the chain"))
            ),
            "replaced by a job": lambda: self.replaces.si("outer", "job"),
            "replaced by a group": lambda: self.replaces.si("outer", "group"),
            "replaced by what fails": lambda: self.replaces.si("outer", "chain that fails"),
            "replaced by a chain": lambda: self.replaces.si("outer", "chain"),
            "replaced by a chord": lambda: self.replaces.si("outer", "chord"),
            "replaced inside a chord": lambda: chord(
                [self.replaces.si("outer", "chord"), c], gather("last"), app=app
            ),
            "added to a chord": lambda: chord([self.adds.si("outer"), b], gather("body"), app=app),
            "chunks": lambda: self.step.chunks([("a",), ("b",), ("c",)], 2).group(),
            "map": lambda: chain(self.step.map(["a", "b"]), c, app=app),
            "starmap": lambda: chain(self.step.starmap([("a", 1), ("b", 2)]), c, app=app),
        }
        return canvases[how]()

    def run(self, how, at=None, command=None):
        """Play the canvas ``how``; the process of message number ``at`` dies before ``command``."""
        self.bench.pulse.store.client.flushdb()
        self.played = Played()
        result = self.canvas(how).apply_async()
        for _ in range(40):
            messages = self.bench.messages()
            if not messages and not self._time_passes():
                return result
            for message in messages:
                dying = len(self.played.lives) == at
                is_job = not message.headers["task"].startswith("celery.")
                self._one(message, Life(command if dying else None, is_job))
        raise AssertionError(f"{how}: it goes on for ever")

    def _one(self, message, life):
        self.played.lives.append(life)
        try:
            with living(life):
                self.bench.run(message)
        except DiedError:
            self.played.died = message.headers["id"]
            record = self.bench.record(self.played.died)
            self.played.unfinished = record is not None and record.state in LIVE

    def _time_passes(self):
        """Leases and claims lapse, lost messages are found. Returns whether any job is alive."""
        pulse, client = self.bench.pulse, self.bench.pulse.store.client
        for key in client.scan_iter("celery-taskset-meta-*.c"):
            if client.get(key) != b"done":
                client.delete(key)
        left = []
        for part in pulse.keys.all_partitions():
            left += [i.decode() for i in client.zrange(part.leases, 0, -1)]
            for lost in client.zrange(part.queued, 0, -1):
                left.append(lost.decode())
                recover(pulse, lost.decode(), "lost")
        for job_id in left:
            if client.zscore(pulse.keys.partition(pulse.keys.partition_of(job_id)).leases, job_id):
                self.bench.crash(job_id)
        return Recovery(pulse).step() > 0 or bool(left)


@pytest.fixture
def play(bench):
    return Play(bench)


CANVASES = {
    "job": ["a"],
    "job then group": ["first", "a", "b"],
    "chain": ["a", "b", "c"],
    "chord": ["a", "b", "body"],
    "chord then job": ["a", "b", "body", "c"],
    "chord with a chain as body": ["a", "b", "body", "c"],
    "chord with a chord as body": ["a", "b", "c", "d", "body"],
    "chord in a chord": ["a", "b", "c", "inner", "body"],
    "chord that fails": ["a", "bad", "in place", "of the body", "of the member"],
    "job that fails": ["bad", "in place", "of the job"],
    "chain that fails": ["a", "bad", "in place", "of the chain"],
    "replaced by a job": ["outer", "a"],
    "replaced by a group": ["outer", "a", "b"],
    "replaced by what fails": ["outer", "a", "bad", "in place", "of the chain"],
    "replaced by a chain": ["outer", "a", "b", "c"],
    "replaced by a chord": ["outer", "a", "b", "body"],
    "replaced inside a chord": ["outer", "a", "b", "body", "c", "last"],
    "added to a chord": ["outer", "b", "added", "body"],
    "chunks": ["a", "b", "c"],
    "map": ["a", "b", "c"],
    "starmap": ["a", "b", "c"],
}


@pytest.mark.parametrize("how", CANVASES)
def test_without_a_death_each_part_runs_once(play, how):
    play.run(how)
    assert {name: len(ids) for name, ids in play.played.ran.items()} == dict.fromkeys(CANVASES[how], 1)
    assert unsettled(play.bench) == []


def unsettled(bench):
    """Jobs that are alive, or ended and not settled."""
    client, found = bench.pulse.store.client, []
    for key in client.scan_iter(f"{bench.pulse.settings.prefix}:*:job:*", _type="hash"):
        state, settled = client.hmget(key, "state", "settled")
        if state is not None and (State(state.decode()) in LIVE or settled != b"1"):
            found.append((key.decode(), state.decode()))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", CANVASES)
def test_each_part_runs_once_wherever_a_process_dies(play, how):
    for _ in range(2):  # the first loads the scripts
        play.run(how)
    lives = enumerate(play.played.lives)
    # Celery's own tasks (chunks, map) are no jobs: their messages come again as Celery has it.
    points = [(at, n) for at, life in lives if life.job for n in range(1, life.sent + 1)]
    wrong = []
    for at, n in points:
        try:
            play.run(how, at, n)
        except AssertionError as exc:
            wrong.append((at, n, str(exc)))
            continue
        found = judge(play, CANVASES[how], play.played.lives[at]) + unsettled(play.bench)
        if found:
            wrong.append((at, n, play.played.lives[at].commands[-1][:150], found))
    assert not wrong, "\n".join(map(str, wrong[:20])) + f"\n{len(wrong)} of {len(points)}"


def judge(play, names, dying):
    """Say what ran too often or not at all."""
    ran, told = play.played.ran, []
    again = {name for name, ids in ran.items() if play.played.died in ids and play.played.unfinished}
    if "outer" in again:  # its body sends jobs itself, and was cut short
        again = set(names)
    if CALLED.sha in dying.commands[-1]:
        again.add("in place")  # it was cut short before it was noted
    for name in names:
        runs = len(ran.get(name, []))
        if runs == 0 or (runs > 1 and name not in again) or runs > 2:
            told.append(f"{name} ran {runs} times")
    return told
