"""What a call of ``send_task`` is taken to be about."""

from __future__ import annotations

from denyut.tasks.intent import intent_of
from denyut.tasks.key import digest_of
from denyut.tasks.unique import PLAIN


def intent(bench, name="t.x", args=(), task_id=None, delay=0.0, **options):
    return intent_of(bench.pulse, name, args, {}, task_id, delay, options), options


def test_a_keyed_job_is_drawn_into_the_partition_of_its_key(bench):
    keys = bench.pulse.keys
    found, options = intent(bench, idempotency_key="k", queue="q")
    assert keys.partition_of(found.id) == keys.partition_of(found.digest)
    assert (found.key, found.unique, found.frozen) == ("k", PLAIN, False)
    assert options == {"queue": "q"}


def test_a_scope_is_part_of_the_digest(bench):
    found, options = intent(bench, idempotency_key="k", unique_scope="acme")
    assert found.digest == digest_of("t.x", "k", "acme") != digest_of("t.x", "k")
    assert options == {}


def test_a_policy_without_a_key_takes_the_arguments_for_one(bench):
    assert (
        intent(bench, args=(1,), unique_for=5)[0].key == intent(bench, args=[1], on_conflict="raise")[0].key
    )
    assert intent(bench, args=(1,))[0].key is None


def test_an_id_that_was_given_is_kept(bench):
    found, _ = intent(bench, task_id="mine", idempotency_key="k")
    assert (found.id, found.frozen, found.by) == ("mine", True, "")
    assert intent(bench, task_id="mine", reply_to="somebody")[0].by


def test_only_a_job_for_later_expires_in_the_store(bench):
    assert intent(bench, expires=5)[0].expires is None
    assert intent(bench, delay=1.0, expires=5)[0].expires == 5


def test_a_retry_keeps_the_policy_of_its_job(bench):
    seen = []

    @bench.task(name="t.retried", bind=True, unique_until="completed", max_retries=1)
    def retried(self):
        seen.append(self.request.get("unique_until"))
        if len(seen) == 1:
            raise self.retry(countdown=0)

    first = retried.delay()
    bench.drain()
    assert seen == ["completed", "completed"]
    assert retried.delay().id != first.id


def test_a_callback_whose_key_lapses_early_is_sent_once_for_a_run(bench):
    ran = []

    @bench.task(name="t.child", idempotency_key="child", unique_until="completed")
    def child(n):
        ran.append(n)

    @bench.task(name="t.parent")
    def parent():
        return 1

    job = parent.apply_async(link=child.s())
    [message] = bench.messages()
    bench.run(message)
    bench.drain()
    record = bench.pulse.keys.job(job.id).record
    bench.pulse.store.client.hset(record, "settled", "0")  # it was not noted that the callback is sent
    bench.pulse.store.client.persist(record)
    bench.run(message)
    bench.drain()
    assert ran == [1]
