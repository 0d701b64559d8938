"""Bringing the tables of a database to the revision that this version of Denyut needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from denyut.database.exclusive import exclusive
from denyut.database.revision import TABLE, Standing, read_schema
from denyut.errors import SchemaMismatch

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from denyut.database.revision import Schema

__all__ = ["migrate", "scripts"]

#: How long to wait for another migration, and for a table that somebody uses (s).
WAIT = 60.0


def migrate(engine: Engine, *, wait: float = WAIT) -> tuple[Schema, Schema]:
    """Make what is missing, in one transaction; returns what the database was, and what it is now.

    Of two at once one waits, and then finds nothing to do. Tables that are newer are left as they are.

    Args:
        engine: of the database.
        wait: seconds to wait for another migration, and for a table that somebody uses.

    Raises:
        SchemaMismatch: the tables are of a generation that this version cannot read.
        sqlalchemy.exc.SQLAlchemyError: the database cannot be reached, or changed; then nothing was.
    """
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    with exclusive(engine, wait=wait) as connection:
        before = read_schema(connection)
        if before.standing == Standing.STRANGE:
            raise SchemaMismatch(str(before))
        if before.standing in (Standing.NONE, Standing.OLDER):
            revisions = scripts()

            def steps(revision: Any, _context: Any) -> Any:
                return revisions._upgrade_revs("head", revision)  # noqa: SLF001 - as Alembic's own upgrade does

            opts = {"version_table": TABLE, "fn": steps, "script": revisions}
            context = MigrationContext.configure(connection, opts=opts)
            with Operations.context(context):
                context.run_migrations()
        return before, read_schema(connection)


def scripts() -> Any:
    """Return the revisions, as Alembic reads them from the package."""
    from alembic.script import ScriptDirectory

    folder = Path(__file__).parent / "revisions"
    return ScriptDirectory(folder, version_locations=[folder])
