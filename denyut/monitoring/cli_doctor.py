"""``celery -A proj denyut doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.monitoring.check import Check

__all__ = ["doctor"]


@click.command()
@as_json
@command
def doctor(pulse: Denyut, as_json: bool) -> None:
    """Check Redis, settings, workers, leases and queues. Exit code 1 if a check fails."""
    from denyut.monitoring.check import Level
    from denyut.monitoring.doctor import examine
    from denyut.monitoring.text import json_text

    checks = examine(pulse)
    if as_json:
        click.echo(json_text([asdict(check) for check in checks]))
    else:
        click.echo(_report(checks))
    if any(check.level == Level.FAIL for check in checks):
        raise SystemExit(1)


def _report(checks: list[Check]) -> str:
    from denyut.monitoring.text import clean

    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.level:<4}  {check.name:<{width}}  {clean(check.message)}")
        if check.hint:
            lines.append(f"{'':{width + 8}}-> {clean(check.hint)}")
    return "\n".join(lines)
