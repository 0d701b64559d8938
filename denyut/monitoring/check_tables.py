"""Are the tables of the job store what this version of Denyut can work with?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.config import hide_password
from denyut.monitoring.check import Check

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.database.revision import Schema

__all__ = ["check_tables"]


def check_tables(pulse: Denyut, _client: Any) -> Check:
    """They are of this revision, or of a newer one of its generation."""
    url = pulse.settings.database_url
    if url is None:
        return Check.ok("tables", "there is no job store")
    from denyut.database.revision import read_schema

    def read() -> Schema:
        with pulse.database.engine.connect() as connection:
            return read_schema(connection)

    schema: Schema | None = pulse.saving.ask(read)
    if schema is None:
        message = f"{hide_password(url)} cannot be asked: {pulse.saving.breaker.error}"
        return Check.fail("tables", message, "is the database up, and may this host and user connect to it?")
    if not schema.usable:
        return Check.fail("tables", str(schema), "docs/store.md, Versions, says in which order to update")
    return Check.ok("tables", str(schema))
