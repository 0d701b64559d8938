"""A pytest plugin of the suite's own process: writes each report as a line of JSON to ``SUITE_REPORT``.

A line at a time, so that a process which ends in the middle has told of all tests up to there.
"""

from __future__ import annotations

import json
import os
from typing import Any


def _tell(**what: Any) -> None:
    with open(os.environ["SUITE_REPORT"], "a", encoding="utf-8") as file:  # noqa: PTH123 - one call a report
        file.write(json.dumps(what) + "\n")


def _reason(report: Any) -> str:
    crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
    text = crash.message if crash is not None else str(getattr(report, "longrepr", "") or "")
    # Of a module that cannot be imported pytest gives a text whose lines "E" say why.
    said = [line[1:] for line in text.splitlines() if line.startswith("E ")]
    return " ".join((said[-1] if said else text).split())[:300]


def pytest_collection_finish(session: Any) -> None:
    """Say which tests there are."""
    _tell(what="collected", tests=[item.nodeid for item in session.items])


def pytest_collectreport(report: Any) -> None:
    """Say which module cannot be imported, and why."""
    if report.failed:
        _tell(what="uncollected", reason=_reason(report))
    elif report.skipped:
        _tell(what="uncollected", reason=f"skipped: {report.longrepr[2]}")


def pytest_runtest_logreport(report: Any) -> None:
    """Say how one phase of a test, or one subtest, went."""
    _tell(
        what="report",
        test=report.nodeid,
        when=report.when,
        outcome=report.outcome,
        xfail=hasattr(report, "wasxfail"),
        sub=getattr(report, "context", None) is not None,
        reason=_reason(report) if report.outcome in ("failed", "rerun") else "",
    )
