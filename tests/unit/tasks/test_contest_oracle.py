"""Any sequence of calls for one key, before, during and after its runs, against a model of a few lines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from denyut.errors import IdempotencyConflict, JobExists
from denyut.tasks.schedule import Schedule

CALL = st.tuples(st.sampled_from(["return", "raise", "replace", "run_again"]), st.integers(0, 2))
RUN = st.tuples(st.just("run"), st.lists(CALL, max_size=4), st.booleans())


@dataclass
class Job:
    id: str
    payload: int
    state: str = "waits"


class Model:
    """What one key's jobs must be."""

    def __init__(self):
        self.present: Job | None = None
        self.next: Job | None = None
        self.ran: list[int] = []

    def expect(self, policy, payload):
        """Return the job that answers (None: a new one, which takes its place), or the error."""
        if self.present is None:
            return None
        if policy == "raise":
            return JobExists
        if policy in ("replace", "run_again") and self.present.state == "waits":
            self.present.payload = payload
            return self.present
        if policy == "run_again":
            if self.present.state != "completed" and self.next is not None:
                self.next.payload = payload
            return None if self.present.state == "completed" else self.next
        same = [job for job in (self.present, self.next) if job is not None and job.payload == payload]
        return same[0] if same else IdempotencyConflict

    def made(self, job_id, payload):
        job = Job(job_id, payload)
        if self.present is not None and self.present.state == "runs":
            self.next = job
        else:
            self.present = job

    def begin(self):
        assert self.present is not None
        self.present.state = "runs"
        self.ran.append(self.present.payload)

    def end(self, *, failed):
        assert self.present is not None
        self.present.state = "completed"
        if self.next is not None:
            self.present, self.next = self.next, None
        elif failed:
            self.present = None


@pytest.fixture
def work(bench):
    """A task whose next run is ``work.body``; ``work.ran`` has the payloads of its runs."""
    ran, body = [], []

    @bench.task(name="t.key", idempotency_key="key")
    def work(n):
        ran.append(n)
        body.pop()()
        return n

    work.ran, work.body = ran, body
    return work


class Play:
    """The calls and runs of one example, each compared with the model."""

    def __init__(self, bench, work):
        self.bench, self.work, self.model = bench, work, Model()

    def call(self, policy, payload):
        expected = self.model.expect(policy, payload)
        if isinstance(expected, type):
            with pytest.raises(expected):
                self.work.apply_async((payload,), on_conflict=policy)
            return
        answer = self.work.apply_async((payload,), on_conflict=policy)
        assert answer.deduplicated is (expected is not None)
        if expected is None:
            self.model.made(answer.id, payload)
        else:
            assert answer.id == expected.id

    def run(self, calls, fails):
        """Run the job that waits, if one does, with ``calls`` while it runs."""

        def in_the_body():
            self.model.begin()
            for each in calls:
                self.call(*each)
            if fails:
                raise ValueError

        if not self.waits:
            return
        self.work.body.append(in_the_body)
        Schedule(self.bench.pulse).step()
        for message in self.bench.messages():
            self.bench.run(message)
        assert not self.work.body, "nothing ran"
        self.model.end(failed=fails)

    @property
    def waits(self):
        return self.model.present is not None and self.model.present.state == "waits"


@given(steps=st.lists(st.one_of(CALL, RUN), max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_call_is_answered_and_every_run_has_the_payload_as_it_must(bench, work, steps):
    bench.pulse.store.client.flushdb()
    work.ran.clear()
    play = Play(bench, work)
    for step in steps:
        if step[0] == "run":
            play.run(*step[1:])
        else:
            play.call(*step)
        assert work.ran == play.model.ran
    while play.waits:
        play.run([], fails=False)
    assert work.ran == play.model.ran
    Schedule(bench.pulse).step()
    assert bench.drain() == 0
