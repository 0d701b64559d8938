from __future__ import annotations

import pytest
from suite_compare import TRIES, differences, failures, look_again
from suite_pass import Pass
from suite_report import ModuleReport, TestResult

MODULE = "t/integration/test_x.py"
TEST = f"{MODULE}::test_y"


def one(outcome, *, denyut, alone=(), claims=7, test=TEST):
    results = {test: TestResult(outcome, reason="why")}
    module = ModuleReport(results, claims=claims if denyut else 0)
    return Pass("newest", denyut, {}, {MODULE: module}, {test: list(alone)} if alone else {})


@pytest.mark.parametrize(
    ("stock", "stock_alone", "denyut_alone", "verdict"),
    [
        ("passed", "ppp", "fff", "fails"),
        ("passed", "ppp", "pff", "fails"),
        ("passed", "ppp", "ppf", "flaky"),
        ("passed", "pff", "fff", "fails for stock too"),
        ("failed", "fff", "fff", "fails for stock too"),
        ("failed", "ppp", "fff", "fails"),
        ("xfailed", "ppp", "ppp", "flaky"),
    ],
)
def test_a_test_fails_if_stock_mostly_passes_it_and_denyut_mostly_does_not(
    stock, stock_alone, denyut_alone, verdict
):
    names = {"p": "passed", "f": "failed"}
    before = one(stock, denyut=False, alone=[names[c] for c in stock_alone])
    now = one("failed", denyut=True, alone=[names[c] for c in denyut_alone])
    [difference] = differences(before, now)
    assert difference.verdict == verdict
    assert bool(failures(before, now)) == (verdict == "fails")


def test_the_counts_take_the_pass_and_the_runs_alone_together():
    before = one("passed", denyut=False, alone=["passed", "failed"])
    now = one("failed", denyut=True, alone=["passed", "failed"])
    assert differences(before, now)[0].counts == "stock 2 of 3, Denyut 1 of 3"


def test_a_pass_without_a_single_claim_fails():
    told = failures(one("passed", denyut=False), one("passed", denyut=True, claims=0))
    assert told == ["no attempt was claimed: the tasks of the suite were no jobs"]


def test_a_test_that_denyut_keeps_from_being_collected_fails():
    told = failures(one("passed", denyut=False), one("passed", denyut=True, test=f"{MODULE}::test_z"))
    assert told == [f"{MODULE}: 1 tests were not collected with Denyut, such as {TEST}"]


def test_a_module_that_was_not_run_fails():
    now = one("passed", denyut=True)
    before = one("passed", denyut=False)
    before.modules["t/integration/test_other.py"] = ModuleReport()
    assert failures(before, now) == ["t/integration/test_other.py was run for stock only"]


def test_only_what_went_wrong_is_run_again_and_equally_often_on_both_sides(monkeypatch):
    monkeypatch.setattr(Pass, "save", lambda self: None)
    before, now = one("passed", denyut=False), one("failed", denyut=True)
    now.modules[MODULE].results[f"{MODULE}::fine"] = TestResult("passed")
    asked = []

    def run(side, test):
        asked.append((side.denyut, test))
        return "passed"

    look_again(before, now, run)
    assert asked == [(False, TEST)] * TRIES + [(True, TEST)] * TRIES
    assert now.alone == {TEST: ["passed"] * TRIES}
