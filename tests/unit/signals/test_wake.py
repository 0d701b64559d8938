"""A wake is kept until it is taken back, and can be shared through its descriptor."""

from __future__ import annotations

import os
from select import select

import pytest

from denyut.signals.wake import Wake


@pytest.fixture
def wake():
    wake = Wake()
    yield wake
    wake.close()


def is_set(wake) -> bool:
    return bool(select([wake.fd], [], [], 0)[0])


def test_it_is_set_until_it_is_cleared_however_often(wake):
    assert not is_set(wake)
    wake.set()
    wake.set()
    assert is_set(wake)
    wake.clear()
    assert not is_set(wake)
    wake.clear()


def test_another_one_on_the_same_descriptor_is_the_same(wake):
    other = Wake(os.dup(wake.fd))
    other.set()
    assert is_set(wake)
    wake.clear()
    assert not is_set(other)
    other.close()
