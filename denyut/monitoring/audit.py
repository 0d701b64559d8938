"""Reading what was done by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from denyut.errors import ConfigurationError, StoreUnavailable
from denyut.tasks.pages import Place, cursor_of, parse_cursor
from denyut.tasks.saving.audit import AuditEntry, drain_audit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from denyut.app import Denyut

__all__ = ["AuditPage", "read_entries"]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries of the audit, newest first. ``cursor`` gives the next page; None at the end."""

    entries: list[AuditEntry]
    cursor: str | None


def read_entries(
    pulse: Denyut, *, job_id: str | None = None, limit: int = 100, cursor: str | None = None
) -> AuditPage:
    """Return what was done by hand, newest first.

    Args:
        pulse: the app's Denyut.
        job_id: only what was done to this job.
        limit: most entries.
        cursor: where the last page ended.

    Raises:
        ConfigurationError: there is no job store.
        StoreUnavailable: it cannot be asked now.
        ValueError: if ``cursor`` is not one.
    """
    if not pulse.keys.stored:
        raise ConfigurationError("there is no audit without a job store: denyut_database_url is not set")
    from denyut.database.audit import read_audit

    after = parse_cursor(cursor)

    def read() -> list[dict[str, Any]]:
        drain_audit(pulse, pulse.store.client)  # what a store that was down has missed
        with pulse.database.begin() as connection:
            return read_audit(connection, pulse.settings.prefix, job_id=job_id, before=after, limit=limit + 1)

    rows: list[dict[str, Any]] | None = pulse.saving.ask(read)
    if rows is None:
        raise StoreUnavailable(
            f"the audit is in the job store, which cannot be asked: {pulse.saving.breaker.error}"
        )
    more = len(rows) > limit
    entries = [_entry(row) for row in rows[:limit]]
    return AuditPage(entries, cursor_of(Place(entries[-1].at, entries[-1].id)) if more else None)


def _entry(row: Mapping[str, Any]) -> AuditEntry:
    same = ("id", "at", "actor", "host", "pid", "action", "outcome", "reason")
    return AuditEntry(
        job_id=row["job_id"] or "",
        before=row["state_before"] or "",
        after=row["state_after"] or "",
        more=json.loads(row["more"]),
        **{name: row[name] for name in same},
    )
