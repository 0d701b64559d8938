"""``celery -A proj denyut migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from denyut.errors import ConfigurationError
from denyut.monitoring.cli_base import as_json, command

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["migrate"]


@click.command()
@click.option("--check", is_flag=True, help="Make nothing; fail if a table or a column is missing.")
@as_json
@command
def migrate(pulse: Denyut, check: bool, as_json: bool) -> None:
    """Make the tables of the job store that are not there yet. May be run again."""
    from denyut.database.schema import find_missing
    from denyut.database.tables import metadata
    from denyut.monitoring.text import json_text

    if not check:
        pulse.database.create()
    if missing := find_missing(pulse.database.engine):
        raise ConfigurationError(_explain(missing, check=check))
    names = sorted(metadata().tables)
    click.echo(json_text({"tables": names}) if as_json else f"there are now: {', '.join(names)}")


def _explain(missing: list[str], *, check: bool) -> str:
    columns = [name for name in missing if "." in name]
    if columns:
        todo = f"its tables are another version's: add {', '.join(columns)} as in denyut/database/tables.py"
    else:
        todo = "make the tables: celery -A APP denyut migrate" if check else "may this user make tables?"
    return f"the job store lacks {', '.join(missing)}; {todo}"
