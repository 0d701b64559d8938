"""Pages of indexes that are spread over partitions."""

from __future__ import annotations

import pytest

from denyut.tasks.pages import Place, cursor_of, first_pages, parse_cursor, walk


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_walk_gives_every_place_once_newest_first_also_with_equal_times(valkey, size):
    for n in range(12):
        valkey.zadd("i", {f"j{n:02}": n // 3})
    (page,) = first_pages(valkey, ["i"], None, size)
    expected = sorted((Place(n // 3, f"j{n:02}") for n in range(12)), reverse=True)
    assert list(walk(valkey, "i", page, size)) == expected


def test_a_page_begins_after_its_cursor(valkey):
    valkey.zadd("i", {"a": 1, "b": 1, "c": 2})
    (page,) = first_pages(valkey, ["i"], Place(1, "b"), 10)
    assert page == [Place(1, "a")]


def test_a_cursor_is_read_as_it_was_written():
    assert parse_cursor(cursor_of(Place(17, "a:b"))) == Place(17, "a:b")
    assert parse_cursor(None) is None
    assert cursor_of(None) is None
    for wrong in ("", "x", "x:1", "1", "²:x", f"{cursor_of(Place(1, 'a'))}x", "!"):
        with pytest.raises(ValueError, match="cursor"):
            parse_cursor(wrong)
