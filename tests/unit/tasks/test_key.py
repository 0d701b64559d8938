from __future__ import annotations

import pytest

from denyut.errors import InvalidKey
from denyut.keys import Keys
from denyut.tasks.key import check_id, check_key, digest_of, draw_id, from_template


@pytest.mark.parametrize("bad", ["", None, 7, b"bytes", "x" * 256, ["a"]])
def test_a_bad_key_or_id_is_refused_with_its_value_and_what_is_allowed(bad):
    for check in (check_key, check_id):
        with pytest.raises(InvalidKey) as caught:
            check(bad)
        assert "must" in str(caught.value)


def test_a_key_of_255_characters_is_fine():
    assert check_key("k" * 255) == "k" * 255


def test_two_tasks_may_use_the_same_key():
    assert digest_of("a", "k") != digest_of("b", "k")


def test_a_task_name_and_key_cannot_be_shifted_into_each_other():
    assert digest_of("ab", "c") != digest_of("a", "bc")


@pytest.mark.parametrize("partitions", [1, 16, 64])
def test_a_keyed_jobs_id_is_drawn_into_the_partition_of_its_key(partitions):
    keys = Keys("d", partitions)
    for n in range(50):
        digest = digest_of("t", str(n))
        assert keys.partition_of(draw_id(keys, digest)) == keys.partition_of(digest)


def order(order_id, region="eu", **kwargs):
    return order_id, region, kwargs


@pytest.mark.parametrize(
    ("template", "args", "kwargs", "expected"),
    [
        ("order:{order_id}", (7,), {}, "order:7"),
        ("order:{order_id}", (), {"order_id": 7}, "order:7"),
        ("{region}/{order_id}", (7,), {}, "eu/7"),
        ("{order_id}-{extra}", (7,), {"extra": "x"}, "7-x"),
        ("{order_id[name]}", ({"name": "n"},), {}, "n"),
    ],
)
def test_a_template_is_filled_from_the_arguments_however_they_are_passed(template, args, kwargs, expected):
    assert from_template(template, order, args, kwargs) == expected


@pytest.mark.parametrize("template", ["{nope}", "{order_id", "{0}"])
def test_a_template_that_cannot_be_filled_says_which_parameters_there_are(template):
    with pytest.raises(InvalidKey, match="order_id"):
        from_template(template, order, (1,), {})


def test_a_template_with_arguments_that_do_not_fit_says_so():
    with pytest.raises(InvalidKey, match="do not fit"):
        from_template("{order_id}", order, (), {})


def test_a_template_that_gives_an_empty_key_is_refused():
    with pytest.raises(InvalidKey, match="empty"):
        from_template("{order_id}", order, ("",), {})


def test_an_id_must_fit_into_255_bytes():
    assert check_id("\u2603" * 85)
    with pytest.raises(InvalidKey, match="255 bytes"):
        check_id("\u2603" * 86)


def test_half_a_surrogate_is_no_text():
    for check in (check_key, check_id):
        with pytest.raises(InvalidKey, match="valid Unicode"):
            check("\ud800")
