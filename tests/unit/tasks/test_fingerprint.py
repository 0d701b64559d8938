from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.serialization import dumps, loads

from denyut.errors import Unfingerprintable
from denyut.tasks.fingerprint import fingerprint

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value):
    if isinstance(value, dict):
        return {k: shuffled(v) for k, v in reversed(list(value.items()))}
    return [shuffled(v) for v in value] if isinstance(value, list) else value


@given(st.lists(plain, max_size=3), st.dictionaries(st.text(), plain, max_size=3))
def test_the_order_of_mappings_does_not_matter(args, kwargs):
    assert fingerprint(args, kwargs) == fingerprint(shuffled(args), shuffled(kwargs))


@given(st.lists(plain, max_size=3), st.dictionaries(st.text(), plain, max_size=3))
def test_it_is_that_of_the_arguments_as_the_worker_decodes_them(args, kwargs):
    content_type, encoding, payload = dumps((args, kwargs), "json")
    decoded = loads(payload, content_type, encoding, accept=[content_type])
    assert fingerprint(*decoded) == fingerprint(args, kwargs)


@given(plain, plain)
def test_different_values_give_different_fingerprints(one, other):
    same = fingerprint([one], {}) == fingerprint([other], {})
    assert same == (typed(one) == typed(other))


def typed(value):
    """Equality that tells 1 from True and 1.0, as JSON does."""
    if isinstance(value, dict):
        return ("dict", sorted((k, typed(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("list", [typed(v) for v in value])
    return (type(value).__name__, repr(value))


class Colour(enum.Enum):
    RED = 1


def test_known_types_are_told_apart_from_text_that_looks_alike():
    day = date(2026, 1, 2)
    values = [
        day,
        str(day),
        datetime(2026, 1, 2, tzinfo=UTC),
        time(1, 2),
        timedelta(1),
        Decimal("1.0"),
        "1.0",
        1.0,
        1,
        True,
        UUID(int=1),
        b"1",
        {1, 2},
        [1, 2],
        Colour.RED,
        {1: 2},
        {"1": 2},
        {"!set": [1, 2]},
        float("inf"),
    ]
    prints = {fingerprint([value], {}) for value in values}
    assert len(prints) == len(values)


def test_a_positional_and_a_keyword_argument_are_not_the_same_call():
    assert fingerprint([1], {}) != fingerprint([], {"a": 1})


@pytest.mark.parametrize("value", [object(), lambda: 1, type, 1j])
def test_an_argument_without_a_canonical_form_is_refused_and_named(value):
    with pytest.raises(Unfingerprintable, match=r"args\[0\]\['x'\].*canonical"):
        fingerprint([{"x": value}], {})


def test_arguments_that_contain_themselves_are_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(Unfingerprintable, match="nested"):
        fingerprint(loop, {})
