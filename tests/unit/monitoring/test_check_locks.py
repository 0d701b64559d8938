from __future__ import annotations

from denyut.monitoring.check import Level
from denyut.monitoring.check_locks import check_locks


def test_no_lock_is_well(desk):
    found = check_locks(desk.pulse, desk.client)
    assert (found.level, found.message) == (Level.OK, "0 lock(s) are held")


def test_the_oldest_lock_is_named(desk):
    with desk.pulse.lock("old", 60), desk.pulse.lock("new", 60):
        found = check_locks(desk.pulse, desk.client)
    desk.pulse.lock_keeper.stop()
    assert found.message.startswith("2 lock(s) are held; the oldest, 'old', for 0.")
