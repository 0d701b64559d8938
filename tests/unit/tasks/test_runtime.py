from __future__ import annotations

import pytest

from denyut.errors import ConfigurationError
from denyut.tasks.runtime import check_max_runtime, max_runtime_of


@pytest.mark.parametrize("value", [0, 0.5, -1, "60", True, float("nan"), float("inf")])
def test_a_time_that_cannot_be_meant_is_refused_when_the_task_is_made(bench, value):
    with pytest.raises(ConfigurationError, match=r"max_runtime=.*: must be a number of seconds, 1 or more"):

        @bench.task(name="t.long", lazy=False, max_runtime=value)
        def long():
            return None


def test_a_task_comes_before_the_setting(make_bench):
    bench = make_bench(denyut_max_runtime=60.0)

    class Task:
        max_runtime = None

    class Short(Task):
        max_runtime = 5

    assert max_runtime_of(bench.pulse, Task) == 60
    assert max_runtime_of(bench.pulse, Short) == 5
    check_max_runtime(Short)


def test_without_either_there_is_no_end(bench):
    class Task:
        max_runtime = None

    assert max_runtime_of(bench.pulse, Task) == 0
