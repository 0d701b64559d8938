"""A fixed selection of Celery's own integration suite, with every task a job. All of it: make conformance.

A test of the selection passes for stock Celery each time (docs/conformance.md); here it must pass for Denyut.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from suite_environment import SuiteEnvironment
from suite_process import SuiteRunner
from suite_report import GOOD
from support import missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: By module: what chords, chains, links, error links, replacements, retries and revokes need.
SELECTION = {
    "test_canvas": [
        "test_link_error::test_link_error_using_signature",
        "test_link_error::test_link_error_callback_retries",
        "test_chain::test_complex_chain",
        "test_chain::test_group_chord_group_chain",
        "test_chain::test_second_order_replace",
        "test_chain::test_chain_of_chords_with_two_tasks",
        "test_chain::test_chain_with_cb_replaced_with_chain_with_cb",
        "test_chain::test_header_failure_fails_the_chords_after_it",
        "test_group::test_nested_group_chord_counting_mixed",
        "test_group::test_mutable_errback_called_by_group",
        "test_group::test_task_replace_with_group_preserves_group_order",
        "test_chord::test_add_to_chord",
        "test_chord::test_add_chord_to_chord",
        "test_chord::test_replaced_nested_chord",
        "test_chord::test_chord_in_chords_with_chains",
        "test_chord::test_chain_chord_chain_chord",
        "test_chord::test_nested_chord_group_chain_group_tail",
        "test_chord::test_error_propagates_to_chord_from_group",
        "test_chord::test_immutable_errback_called_by_chord_from_simple",
        "test_chord::test_mutable_errback_called_by_chord_from_simple",
        "test_chord::test_chord_body_chain_child_replaced_with_chain_middle",
        "test_chord::test_link_error_option_runs_on_header_failure",
        "test_xmap_xstarmap",
    ],
    "test_tasks": [
        "test_tasks::test_ignore_result",
        "test_tasks::test_retry",
        "test_tasks::test_retry_with_unpickleable_exception",
        "test_tasks::test_revoked_by_headers_simple_canvas",
        "test_task_redis_result_backend",
        "test_task_replacement",
    ],
    "test_inspect": ["test_Inspect::test_query_task", "test_Inspect::test_scheduled"],
}


@pytest.fixture
def runner() -> Iterator[SuiteRunner]:
    environment = SuiteEnvironment.find("newest")
    if not environment.ready:
        missing("the private environment of Celery's suite", "make .conformance/newest/prepared makes it")
    with SuiteRunner(environment, denyut=True, limit=380.0) as made:
        yield made


@pytest.mark.parametrize("module", SELECTION)
def test_what_stock_celery_passes_of_its_own_suite_passes_when_its_tasks_are_jobs(runner, module):
    path = Path("t/integration") / f"{module}.py"
    report = runner.run(*(f"{path}::{test}" for test in SELECTION[module]))
    bad = {test: result.reason for test, result in report.results.items() if result.outcome not in GOOD}
    assert report.results, runner.output.read_text()[-3000:]
    assert not bad
    assert report.claims > 0, "the tasks of the suite were no jobs"
