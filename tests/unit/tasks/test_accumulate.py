from __future__ import annotations

import pytest

from denyut.tasks.job_task import ACCUMULATE, JobTask


def test_the_last_step_of_a_group_is_a_job_and_gives_all_results_or_one(bench):
    task = bench.app.tasks[ACCUMULATE]
    assert isinstance(task, JobTask)
    assert task.run([1, 2], 3) == ([1, 2], 3)
    assert task.run([1, 2], index=0) == [1, 2]


@pytest.mark.parametrize("all_tasks", [True, False])
def test_it_is_a_job_also_where_other_tasks_are_not(pulse, all_tasks):
    app = pulse(all_tasks=all_tasks).app
    assert isinstance(app.tasks[ACCUMULATE], JobTask)
