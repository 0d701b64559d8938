"""``celery -A proj denyut migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.errors import ConfigurationError
from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.database.revision import Schema

__all__ = ["migrate"]

#: Exit codes of a check: workers of this version must not start before somebody has migrated, or at all.
_OLDER, _STRANGE = 3, 4


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; the exit code says whether workers can start.")
@as_json
@command
def migrate(pulse: Denyut, check: bool, as_json: bool) -> None:
    """Bring the tables of the job store to the revision of this version of Denyut. May be run again.

    With --check the exit code is 0 if they are equal, or newer and no hindrance; 3 if they are older, or
    there are none; 4 if they are of a newer generation, which this version cannot read.
    """
    from denyut.database.migrate import migrate as upgrade
    from denyut.database.revision import Standing, read_schema

    if check:
        with pulse.database.engine.connect() as connection:
            now = read_schema(connection)
        _tell(pulse, now, as_json, now.revision)
        if now.standing in (Standing.NONE, Standing.OLDER):
            raise SystemExit(_OLDER)
        if not now.usable:
            raise SystemExit(_STRANGE)
    else:
        before, now = upgrade(pulse.database.engine)
        _tell(pulse, now, as_json, before.revision)


def _tell(pulse: Denyut, now: Schema, as_json: bool, before: str | None) -> None:
    from denyut.database.revision import HEAD
    from denyut.database.schema import find_missing
    from denyut.monitoring.text import json_text

    missing = find_missing(pulse.database.engine) if now.usable else []
    if as_json:
        found = {"before": before, "revision": now.revision, "needed": HEAD, "standing": str(now.standing)}
        click.echo(json_text({**found, "missing": missing}))
    else:
        click.echo(str(now), err=not now.usable)
    if missing:
        raise ConfigurationError(
            f"the job store lacks {', '.join(missing)}, though it says that it has revision {now.revision}: "
            "somebody has changed its tables; add what is missing as denyut/database/tables.py has it"
        )
