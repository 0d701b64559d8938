"""From the lines that a process of the suite wrote to how each test went."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["GOOD", "ModuleReport", "TestResult", "read_report"]

#: Outcomes that are what the suite expects of Celery.
GOOD = frozenset({"passed", "skipped", "xfailed", "xpassed"})


@dataclass
class TestResult:
    """One test: its outcome, how often the suite itself ran it again, and why it failed."""

    __test__ = False

    outcome: str = "unfinished"
    reruns: int = 0
    reason: str = ""

    def take(self, report: dict[str, object]) -> None:
        """Take one more report of the test into account."""
        outcome, reason = str(report["outcome"]), str(report["reason"])
        if outcome == "rerun":
            self.outcome, self.reason = "unfinished", ""
            self.reruns += 1
        elif outcome == "failed":
            self.outcome, self.reason = "failed", self.reason or reason
        elif self.outcome == "failed" or report["sub"]:
            return
        elif outcome == "skipped":
            self.outcome = "xfailed" if report["xfail"] else "skipped"
        elif report["when"] == "call":
            self.outcome = "xpassed" if report["xfail"] else "passed"


@dataclass
class ModuleReport:
    """One process of the suite."""

    results: dict[str, TestResult] = field(default_factory=dict)
    #: Why the module could not be imported; empty if it could.
    uncollected: str = ""
    seconds: float = 0.0
    #: Attempts that were claimed while it ran: the proof that its tasks were jobs.
    claims: int = 0

    @property
    def well(self) -> int:
        """How many tests went as the suite expects."""
        return sum(result.outcome in GOOD for result in self.results.values())

    def count(self, outcome: str) -> int:
        """Return how many tests went like that."""
        return sum(result.outcome == outcome for result in self.results.values())


def read_report(path: Path) -> ModuleReport:
    """Read what the reporter wrote. A test that was collected and never told of is ``unfinished``."""
    module = ModuleReport()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        told = json.loads(line)
        if told["what"] == "collected":
            module.results |= {test: TestResult() for test in told["tests"]}
        elif told["what"] == "uncollected":
            module.uncollected = told["reason"]
        else:
            module.results.setdefault(told["test"], TestResult()).take(told)
    return module
