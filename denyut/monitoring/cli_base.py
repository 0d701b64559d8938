"""What all commands share: the app's Denyut, errors as one line, output as text or JSON."""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from redis.exceptions import RedisError

from denyut.config import hide_password
from denyut.errors import DenyutError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from denyut.app import Denyut

__all__ = ["age", "as_json", "command", "print_json", "table"]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``function(pulse, ...)`` with the app's Denyut; an error is one line and exit code 1."""

    @click.pass_context
    @wraps(function)
    def run(context: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        pulse = _pulse(context)
        try:
            return function(pulse, *args, **kwargs)
        except RedisError as exc:
            raise click.ClickException(f"Redis at {hide_password(pulse.store.url)}: {exc}") from exc
        except (DenyutError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc

    return run


def print_json(data: Any) -> None:
    """Print ``data`` as one JSON document."""
    click.echo(json.dumps(data, indent=2, default=str))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows in aligned columns under ``head``."""
    texts = [[str(cell) if cell is not None else "-" for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *texts]) for i in range(len(head))]
    for row in [list(head), *texts]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def age(then_us: int | None, now_us: int) -> str:
    """Return how long ago ``then_us`` was, such as ``3.2 s ago``."""
    if then_us is None:
        return "-"
    seconds = (now_us - then_us) / 1e6
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {name} ago"
    return f"{seconds:.1f} s ago"


def _pulse(context: click.Context) -> Denyut:
    app = context.obj.app
    pulse: Denyut | None = getattr(app, "denyut", None)
    if pulse is None:
        raise click.ClickException(f"the app {app.main!r} has no Denyut: add Denyut(app) where it is made")
    return pulse
