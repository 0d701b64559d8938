from __future__ import annotations

from denyut import JobTask, current_job


def test_a_direct_call_is_a_plain_call(bench, valkey):
    @bench.task(name="t.plain")
    def plain(x):
        return x + 1

    before = valkey.dbsize()
    assert plain(1) == 2
    assert plain.apply((1,)).get() == 2
    assert valkey.dbsize() == before


def test_a_task_called_inside_a_job_runs_in_that_job(bench):
    @bench.task(name="t.inner")
    def inner():
        return current_job().id

    @bench.task(name="t.outer")
    def outer():
        return [current_job().id, inner()]

    result = outer.delay()
    bench.drain()
    assert result.get(timeout=5) == [result.id, result.id]


def test_recursion_runs_the_body_again_and_the_job_once(bench):
    @bench.task(name="t.recursive")
    def recursive(n):
        return 0 if n == 0 else n + recursive(n - 1)

    result = recursive.delay(3)
    bench.drain()
    assert result.get(timeout=5) == 6
    assert bench.record(result.id).attempt == 1


def test_a_base_class_with_its_own_call_sees_the_arguments(bench):
    class Doubling(JobTask):
        def __call__(self, x):
            return super().__call__(2 * x)

    @bench.task(name="t.doubled", base=Doubling)
    def doubled(x):
        return x

    result = doubled.delay(4)
    bench.drain()
    assert result.get(timeout=5) == 8


def test_eager_mode_runs_in_place(make_bench):
    bench = make_bench(task_always_eager=True)

    @bench.task(name="t.eager", idempotency_key="k")
    def eager():
        return current_job().attempt

    assert eager.delay().get() == 1
    assert bench.messages() == []


def test_a_tasks_own_retention_is_used(bench, valkey):
    @bench.task(name="t.short", retention=5)
    def short():
        pass

    result = short.delay()
    bench.drain()
    assert 0 < valkey.ttl(bench.pulse.keys.job(result.id).record) <= 5
