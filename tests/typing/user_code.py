"""Code as a user writes it. It is never run: ``make types`` checks it with mypy, strict.

Celery itself has no types, so its decorator is excused; everything that comes from Denyut is not.
"""

from __future__ import annotations

from typing import Any, assert_type

from celery import Celery
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from denyut import Denyut, JobTask, __version__, current_job
from denyut.errors import (
    AlreadyCommitted,
    AlreadyRetried,
    DenyutError,
    IdempotencyConflict,
    InvalidEvent,
    JobCancelled,
    JobGone,
    LeaseLost,
    LockLost,
    LockTaken,
    NotRetryable,
    StreamDegraded,
)
from denyut.states import State, Verdict
from denyut.tasks.effects import Committed

app = Celery("shop")
app.conf.update(denyut_lease_ttl=6.0, denyut_max_crashes=3)
pulse = Denyut(app)
assert_type(pulse.settings.lease_ttl, float)
assert_type(pulse.settings.redis_url, str | None)
assert_type(pulse.redis_url(), str)
assert_type(__version__, str)


@app.task(base=JobTask, idempotency_key="order:{order_id}")  # type: ignore[untyped-decorator]
def ship(order_id: int) -> int:
    job = current_job()
    assert_type(job.id, str)
    assert_type(job.attempt, int)
    assert_type(job.fence, int)
    first: int = job.checkpoint_data or 0
    job.stage("PACKING")
    shipped = 0
    for item in job.track(range(first, 10), total=10, start=first, unit="items"):
        assert_type(item, int)
        job.checkpoint(item + 1)
        shipped += item
    job.progress(10, 10, unit="items")
    try:
        job.check()
    except (LeaseLost, JobCancelled):
        return 0
    return shipped


@app.task(base=JobTask)  # type: ignore[untyped-decorator]
def pay(order_id: int) -> Any:
    job = current_job()
    receipt = job.once("charge", lambda: f"receipt {order_id}")
    assert_type(receipt, str)
    with Session(create_engine("sqlite://")) as session:
        if done := job.committed(session):
            assert_type(done, Committed)
            assert_type(done.attempt, int)
            return done.result
        try:
            return job.commit(session, {"receipt": receipt}, step="pay")
        except AlreadyCommitted:
            return None


def enqueue(order_id: int) -> Any:
    try:
        return ship.apply_async((order_id,), idempotency_key=f"order:{order_id}")
    except IdempotencyConflict as conflict:
        assert_type(conflict.job_id, str)
        return conflict.job_id


def watch_prices(prices: list[tuple[float, str]]) -> float | None:
    median = pulse.median
    median.record("prices", 9.5, event_id="a")
    try:
        sent = median.record_many("prices", prices)
    except InvalidEvent as error:
        sent = error.sent
        for index, reason in error.errors:
            assert_type(index, int)
            assert_type(reason, str)
    assert_type(sent, int)
    with median.recorder(flush_ms=50.0) as recorder:
        recorder.record("prices", 3, event_id="b")
    try:
        reading = median.read("prices", quantile=0.9)
    except StreamDegraded:
        return None
    assert_type(reading.count, int)
    return reading.value


def look(job_id: str) -> str:
    status = pulse.jobs.get(job_id)
    assert_type(status.verdict, Verdict)
    assert_type(status.terminal, bool)
    if status.record is not None:
        assert_type(status.record.attempt, int)
        assert_type(status.record.state, State)
    page = pulse.jobs.list(state="RUNNING", limit=10)
    for each in page.jobs:
        assert_type(each.id, str)
    if status.gone is not None:
        assert_type(status.gone.state, State)
    stored = pulse.jobs.list(key="order:1", since=-3600, until="2026-12-24T18:00:00Z", cursor=page.cursor)
    assert_type(stored.complete, bool)
    for each in pulse.jobs.watch(job_id, timeout=5.0):
        assert_type(each.poll_after_ms, int)
    return str(status.verdict)


def retry_what_died(task: str) -> list[str]:
    made = []
    for letter in pulse.jobs.dead(task=task, limit=10).letters:
        assert_type(letter.reason, str)
        for error in letter.errors:
            assert_type(error.traceback, str)
        try:
            made.append(str(pulse.jobs.retry(letter.id, from_checkpoint=True).id))
        except AlreadyRetried as again:
            assert_type(again.job_id, str)
        except NotRetryable:
            assert_type(pulse.jobs.purge(letter.id), int)
    return made


def acted(job_id: str) -> list[str]:
    try:
        pulse.jobs.cancel(job_id, reason="a mistake", by="ann")
    except JobGone:
        return []
    return [f"{entry.actor}: {entry.action}" for entry in pulse.jobs.audit(job_id).entries]


def tell(job_id: str) -> list[str]:
    for event in pulse.jobs.events(job_id):
        assert_type(event.kind, str)
        assert_type(event.at, int)
    story = pulse.jobs.explain(job_id)
    assert_type(story.next, str)
    return story.lines()


def anything_of_ours(error: Exception) -> bool:
    return isinstance(error, DenyutError)


def reindex() -> int:
    try:
        with pulse.lock("index", ttl=30, timeout=5) as lock:
            assert_type(lock.fence, int)
            assert_type(lock.held, bool)
            lock.extend(60)
            lock.check()
    except (LockTaken, LockLost) as exc:
        assert_type(exc, LockTaken | LockLost)
    light = pulse.lock("light", 2.5, renew=False)
    if not light.acquire(timeout=0):
        holder = light.refused.holder if light.refused else None
        return holder.fence if holder else 0
    light.release()
    for held in pulse.locks.list():
        assert_type(held.name, str)
        pulse.locks.release(held.name, held.fence)
    return 1
