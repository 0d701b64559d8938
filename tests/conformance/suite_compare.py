"""What differs between a stock pass and one with Denyut, after a second look at each test alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from suite_pass import Pass
from suite_report import GOOD

__all__ = ["Difference", "differences", "failures", "look_again"]

#: How often a test that did not go well is run again alone, on both sides.
TRIES = 3


@dataclass(frozen=True)
class Difference:
    """One test that did not go well with Denyut: in the pass, and in how many of its runs alone."""

    test: str
    stock: str
    denyut: str
    stock_alone: tuple[str, ...]
    denyut_alone: tuple[str, ...]
    reason: str

    @property
    def verdict(self) -> str:
        """``fails`` with Denyut alone, is ``flaky`` there, or ``fails for stock too``.

        Stock must do well in most of its runs, and Denyut in few of its own, for a test to count as
        one that fails with Denyut: the suite is flaky on busy machines.
        """
        stock = [self.stock, *self.stock_alone]
        if _good(stock) * 2 <= len(stock):
            return "fails for stock too"
        if _good(self.denyut_alone) * 2 > len(self.denyut_alone):
            return "flaky"
        return "fails"

    @property
    def counts(self) -> str:
        """Return how many runs went well on each side, such as ``stock 4 of 4, Denyut 2 of 4``."""
        stock, denyut = (self.stock, *self.stock_alone), (self.denyut, *self.denyut_alone)
        return f"stock {_good(stock)} of {len(stock)}, Denyut {_good(denyut)} of {len(denyut)}"


def differences(stock: Pass, denyut: Pass) -> list[Difference]:
    """Return the tests that did not go well with Denyut and are not missing from the stock suite."""
    found = []
    for test in denyut.bad():
        before, now = stock.result(test), denyut.result(test)
        assert now is not None
        found.append(
            Difference(
                test,
                before.outcome if before is not None else "absent",
                now.outcome,
                tuple(stock.alone.get(test, ())),
                tuple(denyut.alone.get(test, ())),
                now.reason,
            )
        )
    return found


def look_again(stock: Pass, denyut: Pass, run: Callable[[Pass, str], str], *, tries: int = TRIES) -> None:
    """Run each test that did not go well with Denyut alone, equally often on both sides.

    Args:
        stock: the stock pass.
        denyut: the other pass.
        run: runs one test alone on the side of a pass, and returns its outcome.
        tries: how often.
    """
    for test in denyut.bad():
        for side in (stock, denyut):
            done = side.alone.setdefault(test, [])
            while len(done) < tries:
                done.append(run(side, test))
                side.save()


def failures(stock: Pass, denyut: Pass) -> list[str]:
    """Return why Denyut does not pass; empty if it does."""
    told = [
        f"{d.test} fails with Denyut alone ({d.counts}): {d.reason}"
        for d in differences(stock, denyut)
        if d.verdict == "fails"
    ]
    if denyut.claims == 0:
        told.append("no attempt was claimed: the tasks of the suite were no jobs")
    for name, module in stock.modules.items():
        other = denyut.modules.get(name)
        if other is None:
            told.append(f"{name} was run for stock only")
            continue
        missing = [test for test in module.results if test not in other.results]
        if missing:
            told.append(f"{name}: {len(missing)} tests were not collected with Denyut, such as {missing[0]}")
    return told


def _good(outcomes: Iterable[str]) -> int:
    return sum(outcome in GOOD for outcome in outcomes)
