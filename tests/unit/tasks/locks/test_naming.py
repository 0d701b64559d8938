from __future__ import annotations

import math

import pytest

from denyut.errors import InvalidLock
from denyut.tasks.locks.naming import LONGEST_TTL, check_name, check_timeout, check_ttl

HOSTILE = ["{x}", "}{", "a:b", "*?[", "a b\n", "\0", "job:1", "ü" * 100, "../..", "%s", "-1"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_any_text_may_be_a_name(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", None, b"x", 7, "x" * 201, "ü" * 101, "\ud800"], ids=ascii)
def test_what_is_no_name_is_refused_and_shown(name):
    with pytest.raises(InvalidLock, match=r"^lock name "):
        check_name(name)


def test_a_lock_lasts_as_long_as_a_lease_unless_told():
    assert check_ttl(None, lease_ttl=6.0, renew=True) == 6.0
    assert check_ttl(30, lease_ttl=6.0, renew=True) == 30.0


def test_a_lock_that_is_renewed_must_last_for_three_beats():
    with pytest.raises(InvalidLock, match=r"5: must be a number from 6 .*needs renew=False"):
        check_ttl(5, lease_ttl=6.0, renew=True)
    assert check_ttl(5, lease_ttl=6.0, renew=False) == 5.0


@pytest.mark.parametrize("ttl", [0, -1, 0.01, LONGEST_TTL + 1, math.nan, math.inf, True, "6"], ids=repr)
def test_a_ttl_that_is_none_is_refused(ttl):
    with pytest.raises(InvalidLock, match="lock ttl"):
        check_ttl(ttl, lease_ttl=6.0, renew=False)


@pytest.mark.parametrize("timeout", [0, 0.5, 7, None])
def test_a_timeout_is_a_number_or_for_ever(timeout):
    assert check_timeout(timeout) == timeout


@pytest.mark.parametrize("timeout", [-1, -0.1, math.nan, math.inf, True, "1"], ids=repr)
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(InvalidLock, match="lock timeout"):
        check_timeout(timeout)
