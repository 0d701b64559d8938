"""Comparing two things on a machine that is never quiet: in pairs, one right after the other.

What disturbs one of a pair most likely disturbs both, so the ratio of a pair means something where
neither value does. The median of the ratios is the result; its 95 % confidence interval, from the
order statistics of the ratios (no assumption about how they are distributed), says how much to trust it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import comb
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FEWEST = 3
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rates (per second) of what is measured and of what it is measured against, pair by pair.

    A cost, such as CPU time, is told as a rate too: as what one second of it is enough for.
    """

    ours: list[float] = field(default_factory=list)
    base: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Ours to base, of each pair: 1 is as fast, 0.5 half as fast."""
        return [ours / base for ours, base in zip(self.ours, self.base, strict=True)]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the median ratio; the whole range where pairs are too few."""
        ordered = sorted(self.ratios)
        low = _rank(len(ordered))
        return ordered[low], ordered[-1 - low]

    def as_dict(self) -> dict[str, float]:
        """Return the result as plain data."""
        low, high = self.interval
        return {
            "ratio": round(median(self.ratios), 3),
            "ratio_low": round(low, 3),
            "ratio_high": round(high, 3),
            "pairs": len(self.ratios),
            "per_s": round(median(self.ours)),
            "base_per_s": round(median(self.base)),
        }

    def __str__(self) -> str:
        found = self.as_dict()
        return (
            f"ratio {found['ratio']:.2f}  (95 %: {found['ratio_low']:.2f} to {found['ratio_high']:.2f}, "
            f"{found['pairs']} pairs)   {found['per_s']:,} /s against {found['base_per_s']:,} /s"
        )


def compare(
    ours: Callable[[], float], base: Callable[[], float], *, seconds: float, most: int = 15
) -> Comparison:
    """Measure one rate in pairs; see :func:`compare_all`."""
    named = compare_all(lambda: {"": ours()}, lambda: {"": base()}, seconds=seconds, most=most)
    return named[""]


def compare_all(
    ours: Callable[[], Mapping[str, float]],
    base: Callable[[], Mapping[str, float]],
    *,
    seconds: float,
    most: int = 15,
) -> dict[str, Comparison]:
    """Measure in pairs, and return what came out, by name.

    Args:
        ours: measures once and returns rates by name.
        base: the same for what it is measured against.
        seconds: stop after so long, but not before three pairs.
        most: stop after so many pairs.
    """
    ours(), base()  # the first run of anything is another thing: caches, connections, pools
    results: dict[str, Comparison] = {}
    end = time.monotonic() + seconds
    pairs = 0
    while pairs < FEWEST or (pairs < most and time.monotonic() < end):
        # Each goes first every other time: neither always gets the warm machine.
        if pairs % 2:
            theirs, mine = base(), ours()
        else:
            mine, theirs = ours(), base()
        for name, value in mine.items():
            result = results.setdefault(name, Comparison())
            result.ours.append(value)
            result.base.append(theirs[name])
        pairs += 1
    return results


def _rank(pairs: int) -> int:
    """Return how many ratios may be left out at each end, so that the median is most likely inside.

    The number of ratios below the true median is binomial with p = 1/2.
    """
    allowed, outside, rank = (1 - CONFIDENCE) / 2 * 2**pairs, 1, 0
    while outside + comb(pairs, rank + 1) <= allowed:
        rank += 1
        outside += comb(pairs, rank)
    return rank
