"""The plot: start, enqueue twice, deliver twice, kill twice, wait, compare."""

from __future__ import annotations

import json
import select
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import truth
from chaos import Chaos
from data import data_file
from facts import (
    conflicting_events,
    exported_events,
    recoveries,
    summaries,
    suppressed_deliveries,
    suppressed_events,
)
from report import Facts
from snapshot import Snapshot, read_jobs, take
from stage import answers, free_port
from story import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stage import Part, Stage, StageError
    from view import View

    from denyut import Denyut
    from denyut.embedded import Server

HERE = Path(__file__).parent
TASK = "flights.import_month"
START_TIMEOUT = 60.0
LOOK_EVERY, SHOW_EVERY = 0.2, 0.6  # seconds

_CELERY = (sys.executable, "-m", "celery", "-A", "app")
# Denyut needs no talk among workers; without it a worker is there a second earlier.
_ALONE = ("--without-gossip", "--without-mingle")


class Enqueued(NamedTuple):
    """What one producer got for one month."""

    month: str
    job_id: str
    existed: bool


class Plot:
    """One performance.

    Args:
        pulse: of the app in ``app.py``.
        stage: where the processes run.
        server: the private Valkey.
        months: what to import.
        view: the audience's.
        timeout: seconds that all of it may take.
    """

    def __init__(
        self, pulse: Denyut, stage: Stage, server: Server, months: Sequence[str], view: View, timeout: float
    ) -> None:
        self.begin = time.monotonic()
        self.deadline = self.begin + timeout
        self.pulse, self.stage, self.server, self.months, self.view = pulse, stage, server, months, view
        self.workers: dict[str, Part] = {}
        self.flower = f"http://127.0.0.1:{free_port()}/"
        self.metrics = f"http://127.0.0.1:{free_port()}/metrics"

    def play(self) -> Facts:
        """Play it and return what came of it. Raises StageError if a part fails, or at the timeout."""
        self.view.say(f"Valkey runs (pid {self.server.pid}); starting workers, exporter, Flower, producers")
        enqueued = self._enqueue(self._start())
        jobs = {each.month: each.job_id for each in enqueued[0]}
        self._deliver_again(jobs)
        kills_left = self._watch(jobs)
        self.view.say("all is applied; now the same numbers by sorting the file")
        return self._facts(enqueued, jobs, kills_left)

    def _start(self) -> list[Part]:
        """Start everything at once, and return the producers when all are ready."""
        start, wait = self.stage.start, self.stage.wait
        for name in ("w1", "w2"):
            self._start_worker(name)
        median = start("median", [*_CELERY, "denyut", "worker-median", *_ALONE])
        exporter = start("exporter", [*_CELERY, "denyut", "exporter", f"--port={_port(self.metrics)}"])
        flower = start("flower", [*_CELERY, "flower", "--address=127.0.0.1", f"--port={_port(self.flower)}"])
        producer = [sys.executable, str(HERE / "producer.py"), *self.months]
        producers = [start(f"producer-{number}", producer, talk=True) for number in (1, 2)]
        for part in (*self.workers.values(), median):
            wait(part, partial(part.said, " ready."), START_TIMEOUT)
        wait(exporter, partial(answers, self.metrics), START_TIMEOUT)
        wait(flower, partial(answers, self.flower), START_TIMEOUT)
        for part in producers:
            self._line_of(part)
        return producers

    def _start_worker(self, name: str) -> None:
        slots = (len(self.months) + 1) // 2  # together, the two workers have one for each month
        options = [f"--hostname={name}@demo", f"--concurrency={slots}", "--loglevel=INFO", *_ALONE]
        self.workers[f"{name}@demo"] = self.stage.start(name, [*_CELERY, "worker", *options])

    def _kill_worker(self, hostname: str) -> None:
        """Kill a worker, and start it again: that is what a supervisor is for."""
        self.stage.kill(self.workers[hostname])
        self._start_worker(hostname.partition("@")[0])

    def _enqueue(self, producers: Sequence[Part]) -> list[list[Enqueued]]:
        """Let both producers go, and return what each got."""
        for part in producers:
            assert part.process.stdin is not None
            part.process.stdin.write("go\n")
            part.process.stdin.flush()
        both = [[Enqueued(*each) for each in json.loads(self._line_of(part))] for part in producers]
        first, second = (sum(each.existed for each in enqueued) for enqueued in both)
        self.view.say(
            f"two producers have enqueued each of {len(self.months)} months at once: {first + second} times "
            f"one got the job of the other ({first} and {second})"
        )
        return both

    def _deliver_again(self, jobs: dict[str, str]) -> None:
        """Send each message once more, past Denyut: as a broker does that is not sure, or a plain client."""
        from celery import Celery

        plain = Celery(broker=self.server.broker_url, set_as_current=False)
        for month, job_id in jobs.items():
            plain.send_task(TASK, (month,), task_id=job_id, ignore_result=True)
        plain.close()
        self.view.say(
            f"each of the {len(jobs)} messages goes out a second time, from a client without Denyut"
        )

    def _watch(self, jobs: dict[str, str]) -> int:
        """Show and kill until everything has come to rest; return how many kills hit nobody."""
        chaos = Chaos(self._kill_worker, self.view.say)
        statuses, next_show = read_jobs(self.pulse, jobs), 0.0
        while True:
            before, statuses = statuses, read_jobs(self.pulse, jobs)
            for line in changes(before, statuses):
                self.view.say(line)
            chaos.act(statuses)
            self.stage.check()
            if time.monotonic() >= next_show:
                snapshot = take(self.pulse, jobs)
                self.view.show(snapshot)
                if snapshot.settled:
                    return chaos.acts_left
                if time.monotonic() > self.deadline:
                    raise self._too_long(snapshot)
                next_show = time.monotonic() + SHOW_EVERY
            time.sleep(LOOK_EVERY)

    def _too_long(self, snapshot: Snapshot) -> StageError:
        verdicts = {month: str(status.verdict) for month, status in snapshot.jobs.items()}
        jobs_left = not all(status.terminal for status in snapshot.jobs.values())
        part = next(p for p in self.stage.parts if p.name == ("w1" if jobs_left else "median"))
        return part.failure(
            f"is not done {self.deadline - self.begin:g} s after the start "
            f"({verdicts}, {snapshot.events:,} events are in)"
        )

    def _facts(self, enqueued: list[list[Enqueued]], jobs: dict[str, str], kills_left: int) -> Facts:
        ended, found = read_jobs(self.pulse, jobs), summaries(self.pulse)
        accepted, exported = sum(each.count for each in found.values()), exported_events(self.metrics)
        existed = sum(each.existed for both in enqueued for each in both)
        ids = [[each.job_id for each in both] for both in enqueued]
        complaints = {
            "the two producers got different jobs": ids[0] != ids[1],
            f"{existed} enqueues got a job that existed, not {len(jobs)}": existed != len(jobs),
            f"{kills_left} of 2 kills hit no running job": kills_left > 0,
            f"the exporter has counted {exported} events, not {accepted}": exported != accepted,
            "events came again with another value": conflicting_events(self.pulse) > 0,
            **{f"{month}: the job is {s.verdict}": s.verdict != "completed" for month, s in ended.items()},
        }
        return Facts(
            found=found,
            expected=truth.summarize(data_file(), set(self.months)),
            duplicates={
                "enqueue": existed,
                "claim": suppressed_deliveries(self.pulse, TASK),
                "event": suppressed_events(self.pulse),
            },
            crashes=sum(status.record.crashes for status in ended.values() if status.record),
            recovery_s=[round(seconds, 3) for seconds in recoveries(self.pulse, jobs.values())],
            wall_s=round(time.monotonic() - self.begin, 1),
            complaints=[text for text, is_so in complaints.items() if is_so],
        )

    def _line_of(self, part: Part) -> str:
        """Return the next line that a producer prints."""
        out = part.process.stdout
        assert out is not None
        self.stage.wait(part, lambda: bool(select.select([out], [], [], 0)[0]), START_TIMEOUT)
        if line := out.readline():
            return str(line)
        raise part.failure(f"ended without an answer (exit code {part.process.wait()})")


def _port(url: str) -> str:
    return url.rpartition(":")[2].partition("/")[0]
