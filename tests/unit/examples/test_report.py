from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report import Facts, as_json, differences, lines
from truth import Summary

GOOD = {"dep_delay:UA": Summary(3, 2.0, 5.6), "arr_delay:UA": Summary(2, 10.0, 10.9)}
FACTS = Facts(
    found=GOOD,
    expected=dict(GOOD),
    duplicates={"enqueue": 12, "claim": 11, "event": 4321},
    crashes=2,
    recovery_s=[0.1, 2.5],
    wall_s=40.2,
)


def test_equal_numbers_are_a_pass():
    assert differences(FACTS) == []
    assert list(lines(FACTS))[-1].startswith("PASS")


def test_the_last_line_has_the_sums():
    assert json.loads(json.dumps(as_json(FACTS))) == {
        "ok": True,
        "events": 5,
        "streams": 2,
        "duplicates": {"enqueue": 12, "claim": 11, "event": 4321},
        "recovery_s": [0.1, 2.5],
        "crashes": 2,
        "wall_s": 40.2,
    }


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        (Summary(4, 2.0, 5.6), "dep_delay:UA: count is 4, sorting gives 3"),
        (Summary(3, 2.5, 5.6), "dep_delay:UA: median is 2.5, sorting gives 2.0"),
        (Summary(3, 2.0, 5.6000000000000005), "dep_delay:UA: p95 is 5.6000000000000005, sorting gives 5.6"),
    ],
)
def test_a_number_that_differs_in_its_last_bit_is_named_and_no_pass(summary, message):
    facts = replace(FACTS, found={**GOOD, "dep_delay:UA": summary})
    assert differences(facts) == [message]
    assert as_json(facts)["ok"] is False
    printed = list(lines(facts))
    assert printed[-2:] == [message, "FAIL"]
    assert any(line.startswith("dep_delay:UA") and line.endswith("DIFFERENT") for line in printed)


def test_a_stream_that_is_missing_or_too_many_is_no_pass():
    assert differences(replace(FACTS, found={})) == ["arr_delay:UA: missing", "dep_delay:UA: missing"]
    assert differences(replace(FACTS, expected={})) == [
        "arr_delay:UA: not a stream that the file gives",
        "dep_delay:UA: not a stream that the file gives",
    ]


def test_any_other_complaint_is_no_pass():
    facts = replace(FACTS, complaints=["1 of 2 kills hit no running job"])
    assert list(lines(facts))[-2:] == ["1 of 2 kills hit no running job", "FAIL"]
