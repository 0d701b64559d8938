"""Which revision the tables of a database have, and what this version of Denyut can do with it.

A revision is ``GENERATION_NUMBER``. Within a generation revisions only add what older versions need not
know, so tables that are newer are no hindrance; a newer generation is. Tables that are older lack something
that this version needs. They are read from a table of Denyut's own, never from the user's
``alembic_version``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from denyut.errors import SchemaMismatch

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["HEAD", "TABLE", "Schema", "Standing", "check_schema", "read_schema"]

#: The revision that this version of Denyut makes, and needs at least.
HEAD = "1_0005"
#: Where the revision of a database is written.
TABLE = "denyut_revision"

_MIGRATE = "celery -A APP denyut migrate"


class Standing(StrEnum):
    """How the tables of a database stand to this version of Denyut."""

    NONE = "none"  # there are none
    OLDER = "older"  # they lack something: migrate
    EQUAL = "equal"
    NEWER = "newer"  # they have something that this version does not know, and does not mind
    STRANGE = "strange"  # they are of a generation that this version cannot read


@dataclass(frozen=True, slots=True)
class Schema:
    """The revision of a database, None if it has none written, and how that stands to this version."""

    revision: str | None
    standing: Standing

    @property
    def usable(self) -> bool:
        """Whether this version of Denyut can work with it."""
        return self.standing in (Standing.EQUAL, Standing.NEWER)

    def __str__(self) -> str:
        if self.standing == Standing.NONE:
            return f"the job store has no tables; make them: {_MIGRATE}"
        which = f"revision {self.revision}" if self.revision else "a time before there were revisions"
        has = f"the job store's tables are of {which}"
        if self.standing == Standing.EQUAL:
            return f"{has}, as this version of Denyut has them"
        if self.standing == Standing.OLDER:
            return f"{has}, and this version of Denyut needs {HEAD}; before its workers start: {_MIGRATE}"
        if self.standing == Standing.NEWER:
            return f"{has}; this version of Denyut ({HEAD}) works with them, too"
        return f"{has}, which this version of Denyut ({HEAD}) cannot read; use the version that made them"


def read_schema(connection: Connection) -> Schema:
    """Return which revision the tables have. Two small queries.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database cannot be asked.
    """
    known = inspect(connection)
    revision = None
    if known.has_table(TABLE):
        revision = connection.execute(text(f"SELECT version_num FROM {TABLE}")).scalar()  # noqa: S608 - a constant
    if revision is not None:
        return Schema(revision, _standing(str(revision)))
    return Schema(None, Standing.OLDER if known.has_table("denyut_jobs") else Standing.NONE)


def check_schema(connection: Connection) -> None:
    """Do nothing if this version of Denyut can work with the tables.

    Raises:
        SchemaMismatch: saying what they are and what to do.
        sqlalchemy.exc.SQLAlchemyError: the database cannot be asked.
    """
    schema = read_schema(connection)
    if not schema.usable:
        raise SchemaMismatch(str(schema))


def _standing(revision: str) -> Standing:
    if revision == HEAD:
        return Standing.EQUAL
    generation, _, number = revision.partition("_")
    mine, _, newest = HEAD.partition("_")
    if generation != mine or not number.isdigit():
        older = generation.isdigit() and int(generation) < int(mine)
        return Standing.OLDER if older else Standing.STRANGE
    return Standing.OLDER if int(number) < int(newest) else Standing.NEWER
