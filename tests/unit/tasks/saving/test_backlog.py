from __future__ import annotations

from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.backlog import read_backlog


def test_what_waits_and_since_when(shelves):
    ids = [shelves.work.delay().id for _ in range(3)]
    keys = shelves.pulse.keys
    now = shelves.pulse.store.now_us()
    part = keys.partition(keys.partition_of(ids[1]))
    shelves.client.zadd(part.outbox, {ids[1]: now - 90_000_000})
    shelves.client.hset(part.refused, "odd", "too long")
    found = read_backlog(shelves.pulse, shelves.client)
    assert found.jobs == 3
    assert 90 <= found.oldest_s < 100
    assert found.refused == {"odd": "too long"}
    assert (found.error, found.failures) == ("", 0)


def test_how_the_writing_goes(shelves):
    applier = Applier(shelves.pulse)
    shelves.work.delay()
    applier.step()
    shelves.pulse.saving.failed(shelves.client, OSError("gone"))
    found = read_backlog(shelves.pulse, shelves.client)
    assert (found.jobs, found.oldest_s, found.written, found.writes, found.failures) == (0, 0.0, 1, 1, 1)
    assert found.error == "OSError: gone"
    assert found.error_age_s < 30
