from __future__ import annotations

import pytest
from celery.utils.saferepr import saferepr
from hypothesis import given
from hypothesis import strategies as st

from denyut.tasks.bulk import short_repr as module
from denyut.tasks.bulk.short_repr import short_repr

SIMPLE = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=30))
VALUES = st.one_of(
    st.lists(SIMPLE, max_size=10),
    st.lists(SIMPLE, max_size=10).map(tuple),
    st.dictionaries(st.text(max_size=5), SIMPLE, max_size=3),
    st.lists(st.lists(SIMPLE, max_size=2), max_size=3),
)


@given(VALUES, st.sampled_from([20, 200, 1024]))
def test_it_is_what_celery_shows(value, size):
    assert short_repr(value, size, None) == saferepr(value, size)


@pytest.mark.parametrize("value", [(), (1,), [1, "it's"], {}, ("a\\b\n", None, 1.5, True)])
def test_simple_arguments_are_not_sent_through_celerys(value, monkeypatch):
    expected = saferepr(value, 1024)
    monkeypatch.setattr(module, "saferepr", None)
    assert short_repr(value, 1024, 3) == expected
