from __future__ import annotations

from time import monotonic

import pytest

from denyut.errors import InvalidLock
from denyut.tasks.locks.holds import JobHold, OwnHold
from denyut.tasks.locks.places import PLACES
from denyut.tasks.locks.steps import Held
from denyut.tasks.slots import SlotBlock, SlotState

FENCE = 9


def held(name="a", fence=5) -> Held:
    return Held(name, f"t{name}", fence, 6.0, monotonic(), 7, "j")


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=FENCE, attempt=1, owner="w")
    yield block
    block.close()


def hold(block, name="a") -> JobHold:
    made = JobHold(block, block.slot(0), FENCE)
    made.begin(held(name))
    return made


def locks(block) -> int:
    state = block.read(0)
    assert isinstance(state, SlotState)
    return state.locks


def test_a_lock_of_a_job_is_where_its_heartbeat_looks(block):
    one, two = hold(block, "a"), hold(block, "b")
    assert locks(block) == 0b11
    assert block.lock_place(0, 1).read(FENCE, 7, "j").name == "b"
    one.end()
    assert locks(block) == 0b10
    assert hold(block, "c").held.name == "c"
    assert block.lock_place(0, 0).read(FENCE, 7, "j").name == "c"
    two.end()
    two.end()
    assert locks(block) == 0b01


def test_a_job_can_hold_only_so_many(block):
    many = [hold(block, f"n{i}") for i in range(PLACES)]
    with pytest.raises(InvalidLock, match="holds 16 locks"):
        JobHold(block, block.slot(0), FENCE)
    many[3].end()
    assert hold(block).held.name == "a"


def test_the_next_job_of_the_slot_has_none(block):
    hold(block)
    block.slot(0).begin(job_id="k", task="t", partition=0, fence=FENCE + 1, attempt=1, owner="w")
    assert locks(block) == 0


def test_a_job_sees_what_its_heartbeat_was_told(block):
    mine = hold(block)
    assert not mine.lost
    block.lock_place(0, 0).answer(5, monotonic() - 3)
    assert 3 <= mine.age < 4
    assert mine.held.answered <= monotonic() - 3
    block.lock_place(0, 0).answer(5, None)
    assert mine.lost


def test_a_lock_of_no_job_takes_answers_about_itself_only():
    mine = OwnHold(None)
    mine.begin(held()._replace(answered=monotonic() - 5))
    mine.answer(4, monotonic())
    assert mine.age >= 5
    mine.answer(5, monotonic())
    assert mine.age < 1
    mine.answer(5, monotonic() - 9)
    assert mine.age < 1, "an answer that comes late does not make it older"
    mine.answer(5, None)
    assert mine.lost
    mine.end()
