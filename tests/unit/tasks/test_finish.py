"""The steps out of RUNNING: guarded by the fence, safe to send twice, true to the state table."""

from __future__ import annotations

import pytest

from denyut.scripts import slot_tag
from denyut.states import LIVE, TERMINAL, TRANSITIONS, Event, State, next_state
from denyut.tasks.cancel import end_from_outside
from denyut.tasks.claim import Code, Key, claim
from denyut.tasks.envelope import Stamp
from denyut.tasks.finish import Outcome, finish, requeue, save_checkpoint, settle

FENCE = 10**15


@pytest.fixture
def job(bench):
    """A job whose record can be put into any state."""

    class Job:
        id = "j"
        keys = bench.pulse.keys.job("j")

        def be(self, state, **fields):
            client = bench.pulse.store.client
            client.delete(self.keys.record, self.keys.lease)
            base = {
                "state": state,
                "fence": FENCE,
                "task": "t",
                "gen": 1,
                "attempt": 1,
                "crashes": 0,
                "failures": 0,
            }
            settled = "1" if state in TERMINAL else "0"
            base |= {"version": 1, "queue": "q", "settled": settled, "due": 1, "msg": "{}", "started_at": 1}
            client.hset(self.keys.record, mapping=base | fields)
            if state == State.RUNNING:
                client.set(self.keys.lease, f"o#{FENCE}", px=5000)

        @property
        def state(self):
            return bench.record("j").state

        def finish(self, state, fence=FENCE, *, settled=True):
            outcome = Outcome(state=state)
            return finish(bench.pulse, "j", fence, outcome, digest=None, retention=60, settled=settled)

        def requeue(self, what, *, message="{}", delay=0.0, fence=FENCE, token="x"):
            return requeue(
                bench.pulse, "j", fence, what, message=message, delay=delay, task="t", queue="q", token=token
            )

    return Job()


ENDINGS = {
    Event.COMPLETE: State.COMPLETED,
    Event.FAIL: State.FAILED,
    Event.IGNORE: State.IGNORED,
    Event.REJECT: State.REJECTED,
}


@pytest.mark.parametrize("start", State)
@pytest.mark.parametrize("event", ENDINGS)
def test_finish_follows_the_state_table(job, start, event):
    job.be(start)
    job.finish(ENDINGS[event])  # of an attempt: what does not run is not an attempt's to end
    assert job.state == (next_state(start, event) if start == State.RUNNING else start)


@pytest.mark.parametrize("start", State)
@pytest.mark.parametrize("event", [Event.CANCEL, Event.EXPIRE])
def test_ending_from_outside_follows_the_state_table(bench, job, start, event):
    job.be(start)
    target = State.CANCELLED if event == Event.CANCEL else State.EXPIRED
    running = event == Event.CANCEL
    ended = end_from_outside(bench.pulse, "j", target, retention=60, running=running)
    assert (ended.done, ended.found) == ((start, event) in TRANSITIONS, start)
    assert job.state == (next_state(start, event) or start)


@pytest.mark.parametrize("start", State)
def test_retry_replace_and_requeue_follow_the_state_table(job, start):
    for event, what in ((Event.RETRY, "retry"), (Event.REPLACE, "replace"), (Event.REQUEUE, "requeue")):
        job.be(start)
        job.requeue(what, delay=60.0 if what == "retry" else 0.0, token=what)
        assert job.state == (next_state(start, event) or start)


@pytest.mark.parametrize("start", State)
def test_a_claim_follows_the_state_table(bench, job, start):
    job.be(start)
    bench.pulse.store.client.delete(job.keys.lease)
    answer = claim(
        bench.pulse, "j", task="t", queue="q", stamp=Stamp(gen=1), pid=1, message=lambda: ("", Key())
    )
    assert (answer.code == Code.CLAIMED) == ((start, Event.CLAIM) in TRANSITIONS)
    assert job.state == (next_state(start, Event.CLAIM) or start)


@pytest.mark.parametrize("fence", [FENCE - 1, FENCE + 1])
def test_every_step_with_another_fence_is_refused_and_writes_nothing_but_that_it_was_refused(
    bench, job, valkey, fence
):
    job.be(State.RUNNING)
    before = valkey.hgetall(job.keys.record)
    assert not job.finish(State.COMPLETED, fence)
    assert not settle(bench.pulse, "j", fence, digest=None, retention=60, completed=True)
    assert job.requeue("retry", fence=fence) == [b"LOST"]
    assert not save_checkpoint(bench.pulse, "j", fence, "1", retention=60)
    after = valkey.hgetall(job.keys.record)
    assert after == {**before, b"n:lost": b"2", b"version": after[b"version"]}


def test_finish_sent_twice_answers_the_same(job, bench):
    job.be(State.RUNNING)
    assert job.finish(State.COMPLETED)
    version = bench.record("j").version
    assert job.finish(State.COMPLETED)
    assert bench.record("j").version == version


def test_requeue_sent_twice_makes_one_generation(job, bench):
    job.be(State.RUNNING)
    first, second = job.requeue("retry", token="once"), job.requeue("retry", token="once")
    assert first[0] == second[0] == b"RESERVED"
    assert first[3] == second[3]
    assert bench.record("j").generation == 2


def test_settle_is_refused_while_the_job_is_live(job, bench):
    for state in LIVE:
        job.be(state)
        assert not settle(bench.pulse, "j", FENCE, digest=None, retention=60, completed=True)


def test_an_unsettled_end_keeps_the_lease_and_the_record_for_ever(job, valkey):
    job.be(State.RUNNING)
    job.finish(State.COMPLETED, settled=False)
    assert valkey.exists(job.keys.lease)
    assert valkey.ttl(job.keys.record) == -1


def test_a_settled_end_starts_the_retention_of_everything(job, bench, valkey):
    job.be(State.RUNNING)
    save_checkpoint(bench.pulse, "j", FENCE, "1", retention=60)
    job.finish(State.COMPLETED)
    for key in (job.keys.record, job.keys.events):
        assert 0 < valkey.ttl(key) <= 60
    assert not valkey.exists(job.keys.lease)


def test_long_errors_are_shortened_in_the_middle():
    outcome = Outcome.of_error(State.FAILED, ValueError("x" * 50_000), traceback="y" * 50_000)
    assert len(outcome.error) < 21_000
    assert "30000 more" in outcome.traceback


def test_all_keys_of_a_job_script_share_one_slot(bench):
    for digest in (None, "d" * 40, "e" * 40):
        for n in range(50):
            slot_tag(bench.pulse.keys.script(f"job-{n}", digest))


def test_the_index_of_what_has_ended_is_by_the_end_also_if_the_job_is_settled_later(job, bench, valkey):
    """So a job has the same place in a list of Redis as in one of the job store."""
    for settle_it in (
        lambda: settle(bench.pulse, "j", FENCE, digest=None, retention=60, completed=True),
        lambda: job.finish("COMPLETED"),
    ):
        job.be("RUNNING")
        job.finish("COMPLETED", settled=False)
        settle_it()
        index = bench.pulse.keys.partition(job.keys.partition).done
        assert valkey.zscore(index, "j") == bench.record("j").finished_at
