from __future__ import annotations

from suite_page import page
from suite_pass import Pass
from suite_report import ModuleReport, TestResult

VERSIONS = {"python": "3.11", "celery": "5.7.0"}
X, AZURE = "t/integration/test_x.py", "t/integration/test_azure.py"


def passes(outcome):
    stock = {X: ModuleReport({f"{X}::a": TestResult("passed"), f"{X}::b": TestResult("xfailed")})}
    stock[AZURE] = ModuleReport(uncollected="No module named 'azure'")
    denyut = {X: ModuleReport({f"{X}::a": TestResult(outcome), f"{X}::b": TestResult("xfailed")}, claims=9)}
    denyut[AZURE] = ModuleReport(uncollected="No module named 'azure'")
    return Pass("newest", False, VERSIONS, stock), Pass("newest", True, VERSIONS, denyut)


def test_the_table_counts_each_module_on_both_sides():
    text = page([passes("passed")], {})
    assert "## Celery 5.7.0" in text
    assert "With python 3.11." in text
    assert "| test_x | 2 | 2 | 2 | 9 |" in text
    assert "| test_azure | cannot be run here: No module named 'azure' | | | |" in text
    assert "| all | 2 | 2 | 2 | 9 |" in text
    assert "Every test went well with Denyut." in text


def test_a_test_that_did_not_go_well_is_told_with_its_counts_and_what_is_known_about_it():
    stock, denyut = passes("failed")
    denyut.alone = {f"{X}::a": ["passed"] * 3}
    stock.alone = {f"{X}::a": ["passed"] * 3}
    text = page([(stock, denyut)], {"::a": "a race of the suite"})
    assert "| `a` | flaky | stock 4 of 4, Denyut 3 of 4 | a race of the suite |" in text


def test_without_a_note_the_reason_is_what_the_test_said_and_a_bar_does_not_break_the_table():
    stock, denyut = passes("failed")
    denyut.modules[X].results[f"{X}::a"].reason = "1 | 2"
    assert "1 \\| 2" in page([(stock, denyut)], {})
