"""``celery -A proj denyut locks list | release``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.monitoring.cli_base import as_json, command, reason_option

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["locks"]


@click.group()
def locks() -> None:
    """The locks of the app's own code (app.denyut.lock)."""


@locks.command("list")
@as_json
@command
def list_locks(pulse: Denyut, as_json: bool) -> None:
    """List the locks that are held, the oldest first."""
    from dataclasses import asdict

    from denyut.monitoring.text import columns, json_text

    held = pulse.locks.list()
    if as_json:
        click.echo(json_text([asdict(lock) for lock in held]))
        return
    rows = [
        (
            *(lock.name, lock.fence, f"{lock.pid}@{lock.host}", lock.job),
            *(f"{lock.held_s:.1f} s", f"{lock.left_s:.1f} s", "yes" if lock.wanted else ""),
        )
        for lock in held
    ]
    click.echo(columns(rows, ("name", "fence", "process", "job", "held for", "lapses in", "wanted")))


@locks.command()
@click.argument("name")
@click.option("--fence", type=int, required=True, help="Of the hold that is meant, as the list shows it.")
@reason_option
@as_json
@command
def release(pulse: Denyut, name: str, fence: int, reason: str, as_json: bool) -> None:
    """Take a lock away from a holder that is gone, or stuck.

    The holder is told within a heartbeat, but may be writing just now: only what compares fences refuses him.
    """
    from denyut.monitoring.text import clean, json_text

    pulse.locks.release(name, fence, reason=reason)
    told = {"name": name, "fence": fence, "released": True}
    text = f"lock {clean(name)} was released; its holder had fence {fence}"
    click.echo(json_text(told, indent=None) if as_json else text)
