"""Named points at which a process may kill itself, put around the package from outside.

``Faults.install()`` wraps what a job passes on its way: every script (so a step may have been done at
the server and its reply lost), every publish, Celery's callbacks, result and chord part, and the
acknowledgement. The package knows nothing of it. Which pass kills is drawn from a seed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

#: What else than scripts is wrapped: the point, the module or class that holds it, the name in there.
PLACES = (
    ("publish", "kombu.messaging:Producer", "publish"),
    ("callback", "celery.canvas:Signature", "apply_async"),
    ("result", "celery.backends.base:Backend", "mark_as_done"),
    ("failure", "celery.backends.base:Backend", "mark_as_failure"),
    ("chord part", "celery.backends.redis:RedisBackend", "on_chord_part_return"),
    ("ack", "celery.worker.request:Request", "acknowledge"),
    ("bury", "denyut.tasks.recover", "bury"),
    ("COMMIT", "sqlalchemy.orm:Session", "commit"),
)


class Faults:
    """The points of one process.

    Args:
        seed: of the draw; the process adds who it is.
        rates: how likely a pass kills, by the point's name (``after claim``), by its place
            (``claim``), or ``""`` for all others. The first that is there counts.
        log: a file; each kill adds a line to it before it happens (see :func:`kills`).
    """

    def __init__(self, seed: str, rates: dict[str, float], log: Path) -> None:
        self.seed = seed
        self.rates = rates
        self.log = log
        self._pid = 0
        self._draw = Random()

    @classmethod
    def from_env(cls, who: str) -> Faults | None:
        """Return what the environment asks for (FAULTS, as :meth:`to_env` wrote it), None if nothing."""
        text = os.environ.get("FAULTS")
        if not text:
            return None
        given = json.loads(text)
        return cls(f"{given['seed']}/{who}", given["rates"].get(who, given["rates"][""]), Path(given["log"]))

    @staticmethod
    def to_env(seed: str, rates: dict[str, dict[str, float]], log: Path) -> dict[str, str]:
        """Return the environment for processes whose rates depend on who they are (``""``: all others)."""
        return {"FAULTS": json.dumps({"seed": seed, "rates": rates, "log": str(log)})}

    def rate(self, point: str) -> float:
        """Return how likely a pass of ``point`` kills."""
        place = point.partition(" ")[2]
        return self.rates.get(point, self.rates.get(place, self.rates.get("", 0.0)))

    def point(self, name: str) -> None:
        """Kill this process with SIGKILL, or not."""
        if self._pid != os.getpid():  # a fork draws anew
            self._pid = os.getpid()
            self._draw = Random(f"{self.seed}/{self._pid}")
        if self._draw.random() < self.rate(name):
            self.die(name)

    def die(self, name: str) -> None:
        """Kill this process, having said where, and whether it is a worker's main process."""
        role = "main" if os.getpgrp() == os.getpid() else "child"
        with self.log.open("ab") as file:
            file.write(f"{role} {name}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Wrap every place for as long as this process lives."""
        from importlib import import_module

        from denyut.scripts import Script

        Script.__call__ = self.around(lambda script: script.name, Script.__call__)  # type: ignore[method-assign]
        for place, where, name in PLACES:
            module, _, owner = where.partition(":")
            holder: Any = import_module(module)
            holder = getattr(holder, owner) if owner else holder
            setattr(holder, name, self.around(lambda *_, place=place: place, getattr(holder, name)))

    def around(self, place_of: Callable[..., str], function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function`` with a point before it and one after it."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            place = place_of(args[0] if args else None)
            self.point(f"before {place}")
            value = function(*args, **kwargs)
            self.point(f"after {place}")
            return value

        wrapped.__name__ = getattr(function, "__name__", "wrapped")
        return wrapped


def kills(log: Path) -> list[tuple[str, str]]:
    """Return the kills that a log tells of: the role of the process, and the point."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]
