from __future__ import annotations

from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth import Summary, quantile, summarize

HEAD = "year,month,carrier,origin,dep_delay,arr_delay\n"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.zip"
    rows = ["2013,1,UA,EWR,2,11", "2013,1,UA,JFK,-4,NA", "2013,1,UA,EWR,6,9", "2013,10,UA,JFK,99,99"]
    with ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", HEAD + "\n".join(rows))
    return path


def test_the_summary_of_a_month_has_every_stream_and_no_missing_value(small):
    assert summarize(small, {"2013-01"}) == {
        "dep_delay:UA": Summary(3, 2.0, 2.0 + 4.0 * 0.9),
        "dep_delay:EWR": Summary(2, 4.0, quantile([2.0, 6.0], 0.95)),
        "dep_delay:JFK": Summary(1, -4.0, -4.0),
        "arr_delay:UA": Summary(2, 10.0, quantile([9.0, 11.0], 0.95)),
        "arr_delay:EWR": Summary(2, 10.0, quantile([9.0, 11.0], 0.95)),
    }


def test_only_the_months_that_were_asked_for_are_read(small):
    assert summarize(small, {"2013-10"})["dep_delay:UA"] == Summary(1, 99.0, 99.0)
    assert summarize(small, set()) == {}


@given(st.lists(st.integers(-60, 1500), min_size=1), st.floats(0, 1))
def test_a_quantile_is_what_numpy_gives(values, q):
    ordered = sorted(map(float, values))
    assert quantile(ordered, q) == pytest.approx(float(np.quantile(ordered, q)))
