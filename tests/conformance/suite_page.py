"""The page that says how Celery's own suite goes: docs/conformance.md."""

from __future__ import annotations

from pathlib import Path

from suite_compare import Difference, differences
from suite_pass import Pass
from suite_report import ModuleReport

__all__ = ["page"]

_HEAD = """# Celery's own integration suite

Celery's source distribution ships its integration tests, `t/integration`. `make conformance` takes the
newest and the oldest Celery that Denyut supports from PyPI, runs that suite on a private Valkey once with
stock Celery and once with `Denyut(app)` on every app of the suite, so that every task is a job, and writes
this page. It fails if a test passes for stock and not with Denyut.

Each module is one pytest process with a server of its own. *well* = passed, or skipped or failed as the
suite expects. A test that did not go well with Denyut is run three times more, alone, on both sides: the
suite is flaky on a busy machine for stock too. It *fails* if it goes well in most runs of stock and not in
most runs alone with Denyut. *Claims* are the attempts that Denyut's claim script counted in Redis during a
module: the proof that the tasks were jobs. `make test` runs a fixed selection
(tests/conformance/test_selection.py).
"""


def page(passes: list[tuple[Pass, Pass]], notes: dict[str, str]) -> str:
    """Return the page.

    Args:
        passes: for each Celery the stock pass and the one with Denyut.
        notes: for names of tests, what is known about why they do not go well.
    """
    return "\n".join([_HEAD, *(_section(stock, denyut, notes) for stock, denyut in passes)])


def _section(stock: Pass, denyut: Pass, notes: dict[str, str]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in denyut.versions.items() if name != "celery")
    lines = [f"## Celery {denyut.versions['celery']}", "", f"With {versions}.", ""]
    lines += ["| module | tests | well, stock | well, Denyut | claims |", "|---|---|---|---|---|"]
    lines += [_row(name, module, denyut.modules.get(name)) for name, module in stock.modules.items()]
    lines += [f"| all | {_tests(stock)} | {_well(stock)} | {_well(denyut)} | {denyut.claims} |", ""]
    found = differences(stock, denyut)
    if not found:
        return "\n".join([*lines, "Every test went well with Denyut.", ""])
    lines += [
        "| not well with Denyut in the pass | verdict | good runs | why |",
        "|---|---|---|---|",
    ]
    lines += [_told(difference, notes) for difference in found]
    return "\n".join([*lines, ""])


def _row(name: str, stock: ModuleReport, denyut: ModuleReport | None) -> str:
    stem = Path(name).stem
    if stock.uncollected:
        return f"| {stem} | cannot be run here: {_cell(stock.uncollected)} | | | |"
    total = len(stock.results)
    if denyut is None:
        return f"| {stem} | {total} | {stock.well} | not run | |"
    return f"| {stem} | {total} | {stock.well} | {denyut.well} | {denyut.claims} |"


def _told(difference: Difference, notes: dict[str, str]) -> str:
    name = difference.test.partition("::")[2]
    why = next((note for part, note in notes.items() if part in difference.test), difference.reason)
    return f"| `{_cell(name)}` | {difference.verdict} | {difference.counts} | {_cell(why)} |"


def _cell(text: str) -> str:
    return text[:200].replace("|", "\\|")


def _tests(done: Pass) -> int:
    return sum(len(module.results) for module in done.modules.values())


def _well(done: Pass) -> int:
    return sum(module.well for module in done.modules.values())
