"""Messages arrive whole and in order, however the stream is cut."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denyut.signals.lines import Lines, line

MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3), max_size=8)


@given(MESSAGES, st.lists(st.integers(1, 40), max_size=20))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(messages, cuts):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lines, found = Lines(theirs), []
        data = b"".join(map(line, messages))
        for cut in [*cuts, len(data)]:
            piece, data = data[:cut], data[cut:]
            if piece:
                ours.sendall(piece)
                found += lines.read()
        assert found == messages


def test_the_end_of_the_other_side_is_noticed():
    ours, theirs = socket.socketpair()
    with theirs:
        lines = Lines(theirs)
        ours.sendall(line({"a": 1}))
        assert lines.first() == {"a": 1}
        ours.close()
        assert lines.first() is None
        assert not lines.open


def test_what_comes_together_with_the_first_message_is_not_lost():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(line({"a": 1}) + line({"b": 2}) + line({"c": 3})[:4])
        lines = Lines(theirs)
        assert lines.first() == {"a": 1}
        assert list(lines.taken()) == [{"b": 2}]
        ours.sendall(line({"c": 3})[4:])
        assert list(lines.read()) == [{"c": 3}]


def test_without_a_message_it_does_not_wait_on_a_socket_that_does_not_block():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        lines = Lines(theirs)
        assert list(lines.read()) == []
        assert lines.open


def test_what_is_no_message_is_an_error():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"nonsense\n")
        with pytest.raises(ValueError, match="Expecting value"):
            list(Lines(theirs).read())
