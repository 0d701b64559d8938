"""What the tables of a database lack of those that this version of Denyut needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import inspect

from denyut.database.tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["find_missing"]


def find_missing(engine: Engine) -> list[str]:
    """Return the tables (``table``) and columns (``table.column``) that are not there, sorted.

    What a newer version has added is no fault: only what this one uses is looked for.
    """
    found, there = inspect(engine), set(inspect(engine).get_table_names())
    missing = []
    for name, table in metadata().tables.items():
        if name not in there:
            missing.append(name)
            continue
        columns = {column["name"] for column in found.get_columns(name)}
        missing += [f"{name}.{column.name}" for column in table.columns if column.name not in columns]
    return sorted(missing)
