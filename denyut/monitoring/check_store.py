"""Does the job store have what it should have?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.config import hide_password
from denyut.monitoring.check import Check
from denyut.tasks.saving.backlog import read_backlog

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_store"]

#: How long a change may wait to be written while all is well (s).
_SOON = 10.0


def check_store(pulse: Denyut, client: Any) -> Check:
    """Everything is written within some seconds, and nothing is refused."""
    url = pulse.settings.database_url
    if url is None:
        return Check.ok("store", "there is none: jobs live in Redis alone")
    found = read_backlog(pulse, client)
    waiting = (
        f"{found.jobs} job(s) wait to be written to {hide_password(url)}, {found.oldest_s:.1f} s at most"
    )
    if found.audit:
        waiting += f", and {found.audit} action(s) by hand"
    if found.error:
        message = f"{waiting}; it could not be written {found.error_age_s:.1f} s ago: {found.error}"
        return Check.fail(
            "store", message, "jobs go on and nothing is lost, but Redis grows: mend the database"
        )
    if found.oldest_s > _SOON:
        return Check.warn("store", waiting, "a worker writes them: is one running? Is the database slow?")
    if found.refused:
        job_id, why = next(iter(found.refused.items()))
        message = f"{len(found.refused)} job(s) are refused, such as {job_id}: {why}"
        return Check.warn("store", message, "Redis keeps them; they are tried again when they change")
    return Check.ok("store", waiting)
