"""``celery -A proj denyut doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command, print_json
from denyut.monitoring.doctor import FAIL, examine

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["doctor"]


@click.command()
@as_json
@command
def doctor(pulse: Denyut, as_json: bool) -> None:
    """Check that Redis, queues, workers and leases are well. Exit code 1 if something is not."""
    checks = examine(pulse)
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            click.echo(f"{check.level:<5} {check.name:<12} {check.message}")
            if check.hint:
                click.echo(f"{'':<18} -> {check.hint}")
    if any(check.level == FAIL for check in checks):
        raise SystemExit(1)
