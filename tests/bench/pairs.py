"""Comparing two rates on a machine that is never quiet: in pairs, one right after the other.

What disturbs one of a pair most likely disturbs both, so the ratio of a pair means something where
neither rate does. The median of the ratios is the result; their range says how much to trust it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FEWEST = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rates (per second) of what is measured and of what it is measured against, pair by pair."""

    ours: list[float]
    base: list[float]

    @property
    def ratios(self) -> list[float]:
        """Ours to base, of each pair: 1 is as fast, 0.5 half as fast."""
        return [ours / base for ours, base in zip(self.ours, self.base, strict=True)]

    def as_dict(self) -> dict[str, float]:
        """Return the result as plain data."""
        return {
            "ratio": round(median(self.ratios), 3),
            "ratio_min": round(min(self.ratios), 3),
            "ratio_max": round(max(self.ratios), 3),
            "pairs": len(self.ratios),
            "per_s": round(median(self.ours)),
            "base_per_s": round(median(self.base)),
        }

    def __str__(self) -> str:
        found = self.as_dict()
        return (
            f"ratio {found['ratio']:.2f}  ({found['ratio_min']:.2f} to {found['ratio_max']:.2f}, "
            f"{found['pairs']} pairs)   {found['per_s']:,} /s against {found['base_per_s']:,} /s"
        )


def compare(
    ours: Callable[[], float], base: Callable[[], float], *, seconds: float, most: int = 15
) -> Comparison:
    """Measure in pairs, and return what came out.

    Args:
        ours: measures once and returns a rate.
        base: the same for what it is measured against.
        seconds: stop after so long, but not before three pairs.
        most: stop after so many pairs.
    """
    ours(), base()  # the first run of anything is another thing: caches, connections, pools
    result = Comparison([], [])
    end = time.monotonic() + seconds
    while len(result.ours) < FEWEST or (len(result.ours) < most and time.monotonic() < end):
        # Each goes first every other time: neither always gets the warm machine.
        if len(result.ours) % 2:
            result.base.append(base())
            result.ours.append(ours())
        else:
            result.ours.append(ours())
            result.base.append(base())
    return result
