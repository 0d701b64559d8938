"""Are the jobs sent that transactions have enqueued?"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from denyut.monitoring.check import Check

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.outbox.places import Place

__all__ = ["check_outbox"]

#: How long a row may wait while all is well (s).
_SOON = 30.0


def check_outbox(pulse: Denyut, client: Any) -> Check:
    """Every outbox has its table and a relay; nothing waits for long, and nothing is set aside."""
    if not pulse.settings.outbox_urls:
        return Check.ok("outbox", "there is none")
    from denyut.tasks.outbox.places import places

    found = [_check(pulse, client, place) for place in places(pulse)]
    worst = max(found, key=lambda check: ("ok", "warn", "fail").index(check.level))
    return worst if worst.hint else Check.ok("outbox", "; ".join(check.message for check in found))


def _check(pulse: Denyut, client: Any, place: Place) -> Check:
    from sqlalchemy.exc import SQLAlchemyError

    from denyut.database.outbox import find_missing
    from denyut.database.outbox_look import read_backlog

    try:
        with closing(place.open(pulse.settings.database_timeout)) as database:
            if missing := find_missing(database.engine):
                message = f"{place.shown} lacks {', '.join(missing)}"
                return Check.fail("outbox", message, "nothing can be enqueued there: docs/outbox.md says how")
            with database.begin() as connection:
                found = read_backlog(connection, pulse.settings.prefix)
    except SQLAlchemyError as exc:
        message = f"{place.shown} cannot be read: {str(exc).splitlines()[0]}"
        return Check.fail("outbox", message, "what is enqueued there waits: mend the database")
    message = f"{found.waiting} job(s) wait in {place.shown}, {found.oldest_s:.1f} s at most"
    if not client.exists(pulse.keys.relay_watch(place.name)):
        hint = "start a worker, whose denyut_outbox_url is the same"
        return Check.warn("outbox", f"{message}; no worker relays them", hint)
    if found.oldest_s > _SOON:
        return Check.warn("outbox", message, "is the database slow, or Redis away? The workers' logs say so")
    if found.aside:
        hint = "celery -A APP denyut outbox list --aside says why; then retry, or purge"
        return Check.warn("outbox", f"{message}; {found.aside} are set aside", hint)
    return Check.ok("outbox", message)
