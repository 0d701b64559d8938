from __future__ import annotations

import json

import pytest
from suite_report import read_report

TEST = "t/integration/test_x.py::test_y"


def report(tmp_path, *told):
    path = tmp_path / "report.jsonl"
    lines = [{"what": "collected", "tests": [TEST]}, *told]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_report(path)


def phase(when, outcome, *, xfail=False, sub=False, reason=""):
    told = {"when": when, "outcome": outcome, "xfail": xfail, "sub": sub, "reason": reason}
    return {"what": "report", "test": TEST, **told}


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        ([phase("setup", "passed"), phase("call", "passed"), phase("teardown", "passed")], "passed"),
        ([phase("setup", "skipped"), phase("teardown", "passed")], "skipped"),
        ([phase("setup", "passed"), phase("call", "skipped", xfail=True)], "xfailed"),
        ([phase("setup", "passed"), phase("call", "passed", xfail=True)], "xpassed"),
        ([phase("setup", "failed"), phase("teardown", "passed")], "failed"),
        ([phase("setup", "passed"), phase("call", "passed"), phase("teardown", "failed")], "failed"),
        ([phase("call", "failed", sub=True), phase("call", "passed"), phase("teardown", "passed")], "failed"),
        (
            [phase("call", "skipped", sub=True), phase("call", "passed"), phase("teardown", "passed")],
            "passed",
        ),
        ([phase("setup", "passed")], "unfinished"),
        ([], "unfinished"),
    ],
)
def test_a_test_went_as_its_phases_and_subtests_say(tmp_path, phases, outcome):
    module = report(tmp_path, *phases)
    assert module.results[TEST].outcome == outcome
    assert module.count(outcome) == 1
    assert module.well == (outcome not in ("failed", "unfinished"))


def test_what_counts_is_the_last_of_the_reruns_that_the_suite_makes_itself(tmp_path):
    told = [
        phase("call", "failed", sub=True, reason="first"),
        phase("call", "rerun"),
        phase("call", "passed"),
    ]
    result = report(tmp_path, *told).results[TEST]
    assert (result.outcome, result.reruns, result.reason) == ("passed", 1, "")


def test_the_first_failure_gives_the_reason(tmp_path):
    told = [phase("call", "failed", reason="body"), phase("teardown", "failed", reason="teardown")]
    assert report(tmp_path, *told).results[TEST].reason == "body"


def test_a_module_that_cannot_be_imported_says_why(tmp_path):
    module = report(tmp_path, {"what": "uncollected", "reason": "No module named 'azure'"})
    assert module.uncollected == "No module named 'azure'"


def test_a_process_that_told_nothing_has_no_results(tmp_path):
    assert read_report(tmp_path / "nothing").results == {}
