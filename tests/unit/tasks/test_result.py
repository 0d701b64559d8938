from __future__ import annotations

import pytest
from kombu.exceptions import ContentDisallowed, EncodeError

from denyut.tasks.result import decode_result, encode_result


@pytest.mark.parametrize("value", [None, 0, "text", [1, {"a": None}], "\u00fc\u20ac", 1.5])
def test_a_result_comes_back_as_it_was(value):
    assert decode_result(encode_result(value, "json")) == value


def test_a_binary_serializer_survives_too():
    assert decode_result(encode_result({"a": (1, b"x")}, "pickle"), ["pickle"]) == {"a": (1, b"x")}


def test_a_serializer_that_is_not_accepted_is_refused():
    with pytest.raises(ContentDisallowed):
        decode_result(encode_result(1, "pickle"))


def test_a_result_that_cannot_be_encoded_is_an_error():
    with pytest.raises(EncodeError):
        encode_result(object(), "json")
