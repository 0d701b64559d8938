"""Going to one revision and no further."""

from __future__ import annotations

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from denyut.database.migrate import scripts
from denyut.database.revision import TABLE


@pytest.fixture
def upgrade_to():
    """``upgrade_to(database, revision)`` brings its tables to that revision."""

    def upgrade(database, revision: str) -> None:
        revisions = scripts()
        opts = {"version_table": TABLE, "fn": lambda at, _: revisions._upgrade_revs(revision, at)}
        with database.engine.begin() as connection:
            context = MigrationContext.configure(connection, opts={**opts, "script": revisions})
            with Operations.context(context):
                context.run_migrations()

    return upgrade
