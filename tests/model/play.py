"""Running the machine: one server, one seed, so many examples."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from model.faults import Violation
from model.machine import Protocol
from model.mutants import MUTANTS
from model.scripts import Library
from nodes.valkey import PrivateValkey
from redis import Redis


@contextmanager
def own_server() -> Iterator[Redis]:
    """A server of the model's own: it is emptied at every example."""
    with tempfile.TemporaryDirectory(prefix="denyut-") as folder:
        server = PrivateValkey(Path(folder))
        server.start()
        try:
            with Redis(unix_socket_path=str(server.socket)) as client:
                yield client
        finally:
            server.kill()


def play(
    redis: Redis,
    *,
    number: int,
    examples: int,
    steps: int = 40,
    library: Library | None = None,
    shrink: bool = True,
    drains: bool = True,
) -> None:
    """Play ``examples`` examples of at most ``steps`` steps, drawn from the seed ``number``.

    Raises:
        Violation: with the steps that led to it.
    """
    machine: Any = type(
        "Machine", (Protocol,), {"redis": redis, "library": library or Library(), "drains": drains}
    )
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
            print_blob=False,
            report_multiple_bugs=False,
        ),
    )


def finds(redis: Redis, name: str, *, number: int, examples: int) -> str:
    """Return what the model says of the mutant ``name``; empty if it finds nothing."""
    try:
        play(redis, number=number, examples=examples, library=Library(MUTANTS[name]), shrink=False)
    except Violation as found:
        return str(found)
    return ""
