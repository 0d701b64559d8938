"""What is not forgotten before the store has it: dead letters, purged ones, the list of ended jobs."""

from __future__ import annotations

from denyut.tasks.purge import purge_letters
from denyut.tasks.recovery import Recovery
from denyut.tasks.saving.applier import Applier


def test_a_dead_letter_has_no_end_of_its_own_also_when_the_store_has_it(shelves):
    job = shelves.work.delay(bad=True)
    shelves.bench.drain()
    Applier(shelves.pulse).step()
    assert shelves.ttl(job.id) == -1
    assert shelves.row(job.id)["budget"] == "failures"


def test_a_purged_letter_is_forgotten_when_the_store_has_let_go_of_it_too(shelves):
    job = shelves.work.delay(bad=True)
    shelves.bench.drain()
    Applier(shelves.pulse).step()
    assert b"msg" in shelves.stored(job.id)
    shelves.client.hset(shelves.pulse.keys.job(job.id).record, "finished_at", 1)  # over its retention
    assert purge_letters(shelves.pulse, [job.id]) == 1
    assert shelves.ttl(job.id) == -1
    Applier(shelves.pulse).step()
    assert shelves.ttl(job.id) == -2
    assert b"msg" not in shelves.stored(job.id)
    assert b"purged" in shelves.stored(job.id)


def test_an_ended_job_is_listed_until_the_store_has_it(make_shelves):
    shelves = make_shelves(denyut_retention=1.0)
    job = shelves.work.delay()
    shelves.bench.drain()
    keys = shelves.pulse.keys
    part = keys.partition(keys.partition_of(job.id))
    shelves.client.zadd(part.done, {job.id: 100})
    shelves.client.zadd(part.outbox, {job.id: 50})
    Recovery(shelves.pulse).step()
    assert shelves.client.zscore(part.done, job.id) == 100
    Applier(shelves.pulse).step()
    Recovery(shelves.pulse).step()
    assert shelves.client.zscore(part.done, job.id) is None
