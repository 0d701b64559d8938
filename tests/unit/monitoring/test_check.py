from __future__ import annotations

import json
from dataclasses import asdict

from denyut.monitoring.check import Check, Level


def test_a_check_says_what_was_found_and_what_to_do():
    assert Check.ok("a", "fine") == Check("a", Level.OK, "fine", "")
    assert Check.warn("a", "odd", "look") == Check("a", Level.WARN, "odd", "look")
    assert Check.fail("a", "bad", "mend") == Check("a", Level.FAIL, "bad", "mend")


def test_it_is_plain_data_for_json():
    assert json.loads(json.dumps(asdict(Check.warn("a", "odd", "look"))))["level"] == "warn"
