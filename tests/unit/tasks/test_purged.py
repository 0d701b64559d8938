"""A purge by Celery's means cancels; a queue that is deleted behind its back is a loss, and is mended."""

from __future__ import annotations

import pytest
from celery import chord
from celery.bin.base import CLIContext
from celery.bin.purge import purge as purge_command
from click.testing import CliRunner

from denyut.states import State
from denyut.tasks.purged import queued_in
from denyut.tasks.recover import recover


@pytest.fixture
def noop(bench):
    @bench.task(name="t.noop")
    def noop(*args):
        return 1

    return noop


def by_control(bench):
    return bench.app.control.purge()


def by_command(bench):
    queue = bench.app.conf.task_default_queue
    done = CliRunner().invoke(
        purge_command, ["-f", "-Q", queue], obj=CLIContext(bench.app, no_color=True, workdir=None)
    )
    assert done.exit_code == 0, done.output
    return int(done.output.split()[1])


@pytest.mark.parametrize("purge", [by_control, by_command])
def test_the_jobs_of_a_purged_queue_are_cancelled_and_not_recovered(bench, noop, purge):
    results = [noop.delay() for _ in range(3)]
    later, elsewhere = noop.apply_async(countdown=60), noop.apply_async(queue="other")
    assert purge(bench) == 3
    for result in results:
        record = bench.record(result.id)
        assert (record.state, record.settled) == (State.CANCELLED, True)
        assert record.error[1].startswith("purged from queue")
        assert result.state == "REVOKED"
        assert recover(bench.pulse, result.id, "lost") == "NOTHING"
    assert bench.record(later.id).state == State.SCHEDULED
    assert bench.record(elsewhere.id).state == State.QUEUED


def test_the_chord_of_a_purged_member_fails(bench, noop):
    body = chord([noop.s(), noop.s()])(noop.s())
    bench.app.control.purge()
    assert body.state == "FAILURE"


def test_a_message_that_a_worker_has_in_hand_is_not_purged(bench, noop):
    result = noop.delay()
    part = bench.pulse.keys.partition(bench.pulse.keys.partition_of(result.id))
    bench.pulse.store.client.zadd(part.held, {result.id: bench.pulse.store.now_us() + 10**6})
    assert list(queued_in(bench.pulse, bench.app.conf.task_default_queue)) == []
    bench.pulse.store.client.zadd(part.held, {result.id: 1})
    assert list(queued_in(bench.pulse, bench.app.conf.task_default_queue)) == [result.id]


def test_a_queue_that_is_deleted_behind_celerys_back_is_mended(bench, noop):
    result = noop.delay()
    bench.pulse.store.client.delete(bench.app.conf.task_default_queue)
    assert recover(bench.pulse, result.id, "lost") == "PUBLISH"
    bench.drain()
    assert result.get(timeout=5) == 1


def test_a_purge_is_in_the_audit_with_how_many_jobs_it_cancelled(make_bench, tmp_path):
    bench = make_bench(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")
    bench.pulse.database.create()

    @bench.task(name="t.noop")
    def noop():
        return 1

    by_control(bench)
    for _ in range(3):
        noop.delay()
    by_control(bench)
    [entry] = bench.pulse.jobs.audit().entries
    queue = bench.app.conf.task_default_queue
    assert (entry.action, entry.more, entry.outcome) == ("purge queue", {"queue": queue, "count": 3}, "done")
