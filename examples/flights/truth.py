"""The same numbers computed the plain way: read the file, sort, look up. It shares no code with the rest."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from io import TextIOWrapper
from statistics import median
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Summary:
    """What is compared of a stream."""

    count: int
    median: float
    p95: float


def summarize(file: Path, months: set[str]) -> dict[str, Summary]:
    """Return the summary of every stream, from the flights of ``months`` (such as ``2013-01``)."""
    return {stream: _summary(sorted(values)) for stream, values in _values(file, months).items()}


def quantile(ordered: list[float], q: float) -> float:
    """Return a quantile of sorted values: rank q * (n - 1), linear between two (Hyndman and Fan, no. 7)."""
    rank = q * (len(ordered) - 1)
    low = int(rank)
    a, b, share = ordered[low], ordered[min(low + 1, len(ordered) - 1)], rank - low
    # Rounded from the nearer end, as numpy does, so that the result can be compared bit by bit.
    return a + (b - a) * share if share < 0.5 else b - (b - a) * (1 - share)


def _values(file: Path, months: set[str]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = defaultdict(list)
    with ZipFile(file) as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(TextIOWrapper(raw, "ascii")):
            if f"{row['year']}-{int(row['month']):02}" not in months:
                continue
            for kind in ("dep_delay", "arr_delay"):
                if row[kind] != "NA":
                    for group in (row["carrier"], row["origin"]):
                        values[f"{kind}:{group}"].append(float(row[kind]))
    return values


def _summary(ordered: list[float]) -> Summary:
    return Summary(len(ordered), median(ordered), quantile(ordered, 0.95))
