from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from hashlib import blake2b
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denyut.errors import PoisonBatch
from denyut.median.columns import Columns
from denyut.median.packing import decode, digest, encode

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(min_size=1, max_size=20).map(str.encode)
ROWS = st.lists(st.tuples(FINITE, TEXT, st.floats(0, 2e11) | st.just(nan)), min_size=1, max_size=20)


def packed(value: float = 1.0) -> bytes:
    return b64decode(encode(Columns([value], [b"e"])))


def text(raw: bytes) -> str:
    return b64encode(raw).decode()


@given(ROWS, st.booleans())
def test_every_bit_of_every_column_travels(rows: list[Any], timed: bool) -> None:
    values, ids, at = (list(column) for column in zip(*rows, strict=True))
    batch = decode(encode(Columns(values, ids, at if timed else None)))
    assert batch.count == len(rows)
    assert struct.pack(f">{len(values)}d", *batch.numbers()) == struct.pack(f">{len(values)}d", *values)
    assert batch.ids == b"".join(blake2b(each, digest_size=16).digest() for each in ids)
    assert batch.last_event_id.encode() == ids[-1]
    assert repr(batch.times()) == repr(tuple(at) if timed else None)


def test_an_id_is_the_digest_of_its_text() -> None:
    assert decode(encode(Columns([1.0], ["é".encode()]))).ids == digest("é")


def test_an_event_takes_24_bytes_and_32_with_its_time() -> None:
    def size(n: int, at: list[float] | None) -> int:
        return len(b64decode(encode(Columns([1.0] * n, [b"e"] * n, at))))

    assert size(2, None) - size(1, None) == 24
    assert size(2, [1.0, 2.0]) - size(1, [1.0]) == 32


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        (None, "must be base64 text, not NoneType"),
        (7, "must be base64 text, not int"),
        ("***", "must be base64 text"),
        ("é", "must be base64 text"),
        ("", "has at least 6 bytes, not 0"),
        (text(b"abc"), "has at least 6 bytes, not 3"),
        (text(packed()[:20]), "was cut short"),
        (text(packed()[:-1]), "was cut short"),
        (text(struct.pack(">BBI", 1, 0, 0) + b"e"), "a batch of 0 events"),
        (text(b"\x02" + packed()[1:]), "format 2 with columns 0x0 is unknown to this version"),
        (text(b"\x01\x04" + packed()[2:]), "columns 0x4 is unknown to this version"),
        (text(packed()[:-1] + b"\xff"), "is not UTF-8"),
        (text(packed(nan)), "not finite"),
        (text(packed(-inf)), "not finite"),
    ],
)
def test_a_batch_that_no_producer_of_ours_made_is_poison(poison: Any, reason: str) -> None:
    with pytest.raises(PoisonBatch) as raised:
        decode(poison)
    assert reason in str(raised.value)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_batch_or_poison_and_nothing_else(raw: bytes) -> None:
    try:
        batch = decode(text(raw))
    except PoisonBatch:
        return
    assert len(batch.values) == 8 * batch.count
