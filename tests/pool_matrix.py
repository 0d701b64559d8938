"""The table of what was tested on which pool, at the end of a run: made of the tests' own names."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

#: Tests of these files are about a situation, and their parameter is a pool.
FILES = ("test_pools.py", "test_watchdog.py", "test_locks.py", "test_outbox.py")
POOLS = ("prefork", "prefork process", "solo", "threads", "gevent", "eventlet")
_NAME = re.compile(r"(?P<file>\w+\.py)::test_(?P<situation>\w+)\[(?P<pool>[a-z ]+?)(?:-[\w-]+)?\]$")
_MARKS = {"passed": "yes", "failed": "NO", "error": "NO", "skipped": "-"}


def rows(outcomes: dict[str, list[str]]) -> list[str]:
    """Return the lines of the table; none if no such test ran.

    Args:
        outcomes: names of tests by what came of them, as pytest has them.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for outcome, names in outcomes.items():
        for name in names:
            match = _NAME.search(name)
            if match and match["file"] in FILES and match["pool"] in POOLS and outcome in _MARKS:
                situation = re.sub(r"_?on_every_pool|_of_every_pool", "", match["situation"]).replace(
                    "_", " "
                )
                found[situation][match["pool"]] = _MARKS[outcome]
    if not found:
        return []
    width = max(map(len, found))
    head = f"{'':{width}}  " + "  ".join(POOLS)
    lines = [
        f"{situation:{width}}  " + "  ".join(f"{marks.get(pool, ''):{len(pool)}}" for pool in POOLS)
        for situation, marks in found.items()
    ]
    return [head, *(line.rstrip() for line in lines)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table."""
    outcomes = {
        outcome: [report.nodeid for report in reports if hasattr(report, "nodeid")]
        for outcome, reports in terminalreporter.stats.items()
        if outcome in _MARKS
    }
    if lines := rows(outcomes):
        terminalreporter.write_sep("=", "what was tested on which pool")
        for line in lines:
            terminalreporter.write_line(line)
