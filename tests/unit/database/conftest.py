"""An outbox on each database that can have one."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine

from denyut.database.outbox import metadata
from denyut.database.outbox_put import put_statement


@pytest.fixture(params=["postgresql", "sqlite"])
def bare(request, tmp_path) -> Any:
    """An engine on an empty database."""
    lite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'app.db'}" if lite else request.getfixturevalue("postgres")
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(bare) -> Any:
    metadata().create_all(bare)
    return bare


@pytest.fixture
def put(engine) -> Any:
    """Put a row into the outbox."""

    def put(job_id: str, prefix: str = "p", due_in: int | None = None, **changed: Any) -> None:
        values = {"prefix": prefix, "id": job_id, "task": "t", "key": None, "message": "m", "due_in": due_in}
        with engine.begin() as connection:
            connection.execute(put_statement(), values)
            if changed:
                table = metadata().tables["denyut_outbox"]
                connection.execute(table.update().where(table.c.id == job_id).values(**changed))

    return put
