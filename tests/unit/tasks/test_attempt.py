"""One attempt: the record decides first, then Celery is told."""

from __future__ import annotations

from uuid import UUID

from denyut.states import State
from denyut.tasks.attempt import active_attempt


def test_the_record_is_completed_before_callbacks_and_result_are_sent(bench):
    order = []

    @bench.task(name="t.noop")
    def noop():
        return 1

    result = noop.apply_async(link=noop.si())
    backend = noop.backend
    real = backend.mark_as_done

    def mark(task_id, *args, **kwargs):
        order.append(bench.record(task_id).state)
        return real(task_id, *args, **kwargs)

    backend.mark_as_done = mark
    bench.run(bench.messages()[0])
    assert order == [State.COMPLETED]
    assert bench.record(result.id).settled


def test_a_job_that_nobody_waits_for_is_completed_and_settled_in_one_step(bench):
    settled = []

    @bench.task(name="t.quiet", ignore_result=True)
    def quiet():
        settled.append(active_attempt().settled)

    result = quiet.delay()
    from denyut.tasks import attempt as module

    def refuse(*args, **kwargs):
        raise AssertionError("settle was called for a job without a continuation")

    real, module.settle = module.settle, refuse
    try:
        bench.drain()
    finally:
        module.settle = real
    assert bench.record(result.id).settled


def test_continuations_get_the_same_ids_at_every_replay(bench):
    ids = []

    @bench.task(name="t.noop")
    def noop():
        attempt = active_attempt()
        ids.append([attempt.child_id() for _ in range(3)])

    noop.apply_async(task_id="same")
    [message] = bench.messages()
    bench.run(message)
    bench.pulse.store.client.flushall()
    bench.run(message)
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3
    assert all(UUID(i).version == 5 for i in ids[0])


def test_a_body_that_goes_on_after_its_retry_was_sent_changes_nothing(bench):
    @bench.task(name="t.odd", bind=True)
    def odd(self):
        if self.request.retries == 0:
            self.retry(countdown=0, throw=False)
        return self.request.retries

    result = odd.delay()
    bench.drain()
    assert result.get(timeout=5) == 1
    assert bench.record(result.id).generation == 2


def test_the_retry_of_an_attempt_that_lost_its_lease_is_refused(bench):
    @bench.task(name="t.late", bind=True)
    def late(self):
        if active_attempt().run.attempt == 1:
            bench.crash(self.request.id)
            bench.run(message)
            raise self.retry(countdown=0)
        return "the other one"

    result = late.delay()
    [message] = bench.messages()
    bench.run(message)
    assert bench.messages() == []
    assert result.get(timeout=5) == "the other one"
    assert bench.record(result.id).generation == 1
