"""The audience's view: a live one in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from snapshot import Snapshot, worker_of

from denyut.states import Verdict

if TYPE_CHECKING:
    from denyut.monitoring.status import Status

_LINES = 9  # of the story that are visible while it moves
_WIDE = 118  # columns that jobs and medians side by side take
_PLAIN_EVERY = 2.0
_COLOURS = {
    Verdict.RUNNING: "green",
    Verdict.COMPLETED: "bold green",
    Verdict.CRASHED: "bold red",
    Verdict.QUEUED: "yellow",
    Verdict.SLOW: "yellow",
}


class View(Protocol):
    """What the plot needs of a view."""

    def say(self, line: str) -> None:
        """Tell one thing that happened."""

    def show(self, snapshot: Snapshot) -> None:
        """Show how things are."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def make_view() -> View:
    """Return a live view if the output is a terminal, else plain lines."""
    console = Console()
    return LiveView(console) if console.is_terminal else PlainView()


class PlainView:
    """A line for everything that happens, and every two seconds one that sums up."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._next = 0.0

    def say(self, line: str) -> None:
        """See :class:`View`."""
        print(f"{time.monotonic() - self._begin:6.1f} s  {line}", flush=True)

    def show(self, snapshot: Snapshot) -> None:
        """See :class:`View`."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PLAIN_EVERY
            self.say(f"jobs: {_verdicts(snapshot)}, {snapshot.share:.0%} | {_medians(snapshot)}")

    def close(self) -> None:
        """See :class:`View`."""


class LiveView:
    """Jobs, medians and the story, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._begin = time.monotonic()
        self._console = console
        self._story: list[str] = []
        self._snapshot = Snapshot({}, {}, settled=False)
        # Redrawn by us alone: a thread of its own would be in the way of starting processes.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def say(self, line: str) -> None:
        """See :class:`View`."""
        self._story.append(f"{time.monotonic() - self._begin:5.1f} s  {line}")
        self._draw()

    def show(self, snapshot: Snapshot) -> None:
        """See :class:`View`."""
        self._snapshot = snapshot
        self._draw()

    def close(self) -> None:
        """See :class:`View`. The moving parts go; what happened stays on the screen, all of it."""
        self._live.stop()
        self._console.print("\n".join(self._story), highlight=False, markup=False)

    def _draw(self) -> None:
        parts: list[Table | Text] = []
        if self._snapshot.jobs:
            summary = (
                f"{_verdicts(self._snapshot)}, {self._snapshot.share:.0%}  |  {_medians(self._snapshot)}"
            )
            parts += [Text(summary, style="bold"), self._body()]
        story = Text("\n".join(self._story[-_LINES:]), style="cyan", no_wrap=True, overflow="ellipsis")
        self._live.update(Group(*parts, story), refresh=True)

    def _body(self) -> Table:
        if self._console.width < _WIDE:
            return _jobs_table(self._snapshot)
        both = Table.grid(padding=(0, 2))
        both.add_row(_jobs_table(self._snapshot), _medians_table(self._snapshot))
        return both


def _jobs_table(snapshot: Snapshot) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("month", "progress", "", "verdict", "stage", "worker", "try"):
        table.add_column(name, no_wrap=True)
    table.add_column("MiB", justify="right")
    table.add_column("beat", justify="right")
    for month, status in snapshot.jobs.items():
        table.add_row(month, *_job_row(status))
    return table


def _job_row(status: Status) -> list[str | Text | ProgressBar]:
    telemetry, done = status.telemetry, status.progress or 0.0
    beat = "" if telemetry is None or status.terminal else f"{_age(status, telemetry.last_heartbeat):.1f} s"
    memory = "" if telemetry is None or telemetry.rss_mb is None else f"{telemetry.rss_mb:.0f}"
    return [
        ProgressBar(total=1.0, completed=done, width=18),
        f"{done:4.0%}",
        Text(status.verdict, style=_COLOURS.get(status.verdict, "red")),
        "" if status.terminal else status.stage,
        worker_of(status),
        str(status.attempt),
        memory,
        beat,
    ]


def _medians_table(snapshot: Snapshot) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("minutes late", "events", "dep", "arr"):
        table.add_column(name, justify="left" if name == "minutes late" else "right")
    groups = sorted({name.partition(":")[2] for name in snapshot.medians}, key=lambda g: (len(g), g))
    for group in groups:
        both = [snapshot.medians.get(f"{kind}_delay:{group}") for kind in ("dep", "arr")]
        values = ["" if r is None or r.value is None else f"{r.value:g}" for r in both]
        table.add_row(group, f"{sum(r.count for r in both if r):,}", *values)
    return table


def _verdicts(snapshot: Snapshot) -> str:
    counts = Counter(str(status.verdict) for status in snapshot.jobs.values())
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def _medians(snapshot: Snapshot) -> str:
    again = sum(reading.duplicates for reading in snapshot.medians.values())
    return f"{snapshot.events:,} events in {len(snapshot.medians)} medians, {again:,} came again"


def _age(status: Status, when: int) -> float:
    return max(status.now_us - when, 0) / 1e6
