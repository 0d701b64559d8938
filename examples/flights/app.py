"""The Celery application of the demo: one task, which imports a month of flights.

It is an ordinary Celery app. ``Denyut(app)`` makes its tasks jobs; the template makes "import this
month" one job, however often it is asked for; and a checkpoint after each batch is all that it takes to
go on where a killed process stopped.

    celery -A app worker                    # as many as you like
    celery -A app denyut worker-median      # applies the events
"""

from __future__ import annotations

from celery import Celery
from data import count_events, events_by_stream, read_month

from denyut import Denyut, current_job

BATCH = 7000  # flights between two checkpoints
AGAIN = 10  # one in so many messages is sent twice on purpose

app = Celery("flights")
app.conf.update(
    # Broker and results need no word: DENYUT_REDIS_URL, or a private server of the project folder.
    # So that the demo shows in seconds what else would take a minute. The defaults are 6 s and 60 s.
    denyut_lease_ttl=2.0,
    denyut_queued_timeout=15.0,  # a process killed between recording a batch's job and publishing it
    worker_disable_prefetch=True,  # a job must not wait in the memory of a busy worker
    denyut_median_batch=2000,  # a message costs the median worker more than its events do
    task_send_sent_event=False,  # Flower need not hear of thousands of batches
)
pulse = Denyut(app)


@app.task(name="flights.import_month", idempotency_key="flights-{month}")  # type: ignore[untyped-decorator]
def import_month(month: str) -> int:
    """Record every delay in ``month`` (such as ``2013-01``) and return the number of its flights."""
    job = current_job()
    job.stage("READING")
    flights = read_month(month)

    begin = job.checkpoint_data or 0  # flights that an earlier attempt has recorded
    done, total = count_events(flights[:begin]), count_events(flights)
    job.progress(done, total, unit="events")
    job.stage("RESUMING" if begin else "RECORDING")
    while batch := flights[begin : begin + BATCH]:
        for place, (stream, events) in enumerate(events_by_stream(batch).items()):
            done += pulse.median.record_many(stream, events)
            job.progress(done, total)
            if place % AGAIN == 0:
                pulse.median.record_many(stream, events)  # as a producer does that is not sure
        # A crash before the next line sends the batch again, with the same event ids: they count once.
        begin += len(batch)
        job.checkpoint(begin)
        job.stage("RECORDING")
    return len(flights)
