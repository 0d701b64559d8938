from __future__ import annotations

from time import monotonic

import pytest

from denyut.tasks.locks.places import PLACE_SIZE, PLACES, Place
from denyut.tasks.locks.steps import Held
from denyut.tasks.slots import SlotBlock

HELD = Held("näme", "t" * 64, 2**54, 86_400.0, 12.5, 7, "j")


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    yield block
    block.close()


@pytest.fixture
def place(block) -> Place:
    return block.lock_place(1, 3)


def test_what_was_noted_is_read(place):
    place.fill(9, HELD)
    assert place.read(9, 7, "j") == HELD


def test_the_longest_name_fits(place):
    longest = HELD._replace(name="x" * 200)
    place.fill(9, longest)
    assert place.read(9, 7, "j") == longest


def test_a_lock_of_another_attempt_is_not_this_ones(place):
    place.fill(9, HELD)
    assert place.read(10, 7, "j") is None


def test_a_place_that_was_cleared_is_free(place):
    place.fill(9, HELD)
    place.clear()
    assert place.read(9, 7, "j") is None


def test_half_of_a_note_is_no_lock(block, place):
    place.fill(9, HELD)
    block._memory[place._at + 60] ^= 1
    assert place.read(9, 7, "j") is None


def test_answers_come_to_the_owner(place):
    place.fill(9, HELD)
    assert place.age > 1
    place.answer(HELD.fence, monotonic())
    assert place.age < 1
    assert not place.lost
    place.answer(HELD.fence, None)
    assert place.lost
    assert place.read(9, 7, "j") is None, "what is lost is not renewed"


def test_answers_about_an_earlier_lock_do_not_meet_the_next(place):
    place.fill(9, HELD)
    place.fill(9, HELD._replace(fence=HELD.fence + 1, answered=monotonic()))
    place.answer(HELD.fence, None)
    place.answer(HELD.fence, 0.0)
    assert not place.lost
    assert place.age < 1


def test_places_do_not_overlap(block):
    for index in range(4):
        for number in range(PLACES):
            block.lock_place(index, number).fill(1 + index, HELD._replace(name=f"{index}/{number}"))
    for index in range(4):
        block.slot(index).enter()
        for number in range(PLACES):
            held = block.lock_place(index, number).read(1 + index, 7, "j")
            assert held is not None
            assert held.name == f"{index}/{number}"
    last = block.lock_place(3, PLACES - 1)
    assert last._at + PLACE_SIZE <= len(block._memory)
