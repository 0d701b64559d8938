from __future__ import annotations

import os
import signal
import time

import pytest
from support import wait_until

from denyut.tasks.slots import UNREADABLE, SlotBlock, current_block, use_block

BASE = 1_700_000_000_000_000


@pytest.fixture
def block():
    block = SlotBlock.create(16)
    yield block
    block.close()


def begin(slot, number: int, **more) -> None:
    """Begin a job in which everything follows from ``number``, so that a mix shows."""
    text = f"{number}" * (1 + number % 7)
    job = {"job_id": f"id{text}", "task": f"task{text}", "owner": f"owner{text}", "delivery_tag": text}
    slot.begin(**job | more, partition=number % 16, fence=BASE + number, attempt=number)


def is_whole(state) -> bool:
    number = state.attempt
    text = f"{number}" * (1 + number % 7)
    identity = (state.job_id, state.task, state.owner, state.delivery_tag, state.partition, state.fence)
    whole = (f"id{text}", f"task{text}", f"owner{text}", text, number % 16, BASE + number)
    told = state.done is None or (state.total == state.done * 2 and int(state.done) % 1000 == number % 1000)
    shown = not state.stage or state.stage == f"{number % 1000}" * (1 + state.stage_seq % 9)
    return identity == whole and told and shown


def child(work) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_fresh_block_is_idle_and_touches_no_slot(block):
    assert list(block.active()) == []
    assert list(block.lives()) == []
    assert block.read(15) is None


def test_four_thousand_slots_cost_only_what_is_used(block):
    large = SlotBlock.create()
    assert large.capacity == 4096
    begin(large.slot(0), 1)
    assert os.fstat(large.fd).st_blocks * 512 < 65536
    begin(large.slot(4095), 2)
    assert [index for index, _ in large.active()] == [0, 4095]
    assert os.fstat(large.fd).st_blocks * 512 < 65536
    large.close()


def test_a_slot_beyond_the_last_is_refused(block):
    for index in (-1, 16):
        with pytest.raises(IndexError, match=f"slot {index}: the block has 16"):
            block.slot(index)


def test_active_yields_the_busy_slots_only(block):
    for index in (1, 4, 9):
        begin(block.slot(index), index)
    block.slot(4).end()
    assert [(index, state.attempt) for index, state in block.active()] == [(1, 1), (9, 9)]
    assert [index for index, _, pid in block.lives() if pid == os.getpid()] == [1, 4, 9]


def test_slots_first_used_in_many_children_at_once_are_all_found(block):
    gate = os.pipe()

    def work(index: int) -> None:
        os.read(gate[0], 1)
        begin(block.slot(index), index)

    pids = [child(lambda index=index: work(index)) for index in range(16)]
    os.write(gate[1], b"x" * 16)
    for pid in pids:
        os.waitpid(pid, 0)
    assert [index for index, _ in block.active()] == list(range(16))
    for fd in gate:
        os.close(fd)


def test_a_slot_that_is_being_written_is_unreadable_and_its_last_good_copy_is_kept(block):
    slot = block.slot(0)
    begin(slot, 5)
    good = block.read(0)
    slot._words[2] += 1
    assert block.read(0) is UNREADABLE
    assert list(block.active()) == [(0, UNREADABLE)]
    assert block.last(0) == good
    slot._words[2] += 1
    assert block.read(0).job_id == good.job_id
    slot.end()
    assert block.read(0) is None
    assert block.last(0) is None


def test_an_identity_that_fails_its_checksum_is_unreadable(block):
    begin(block.slot(0), 5)
    at = block._slot_at(0) + 200
    block._memory[at] ^= 1
    assert block.read(0) is UNREADABLE


def test_a_job_that_writes_progress_without_pause_cannot_hide_who_it_is(block):
    slot = block.slot(0)
    begin(slot, 7)
    slot.progress(7, 14)
    slot.stage("7")
    assert block.read(0).done == 7
    slot._words[9] += 1  # a progress and a text that are being written
    slot._words[12] += 1
    state = block.read(0)
    assert (state.job_id, state.done, state.total, state.stage) == ("id7", 7.0, 14.0, "7")
    assert state.progress_seq == 2  # it moved, though it cannot be said to what


def test_readers_never_see_a_mix(block):
    """Torture: children write without pause, the reader compares every copy with itself."""

    def work(index: int) -> None:
        slot, number = block.slot(index), index
        while True:
            number += 8
            begin(slot, number)
            for step in range(number % 11):
                done = step * 1000 + number % 1000
                slot.progress(done, done * 2)
                slot.stage(f"{number % 1000}" * (1 + (step + 1) % 9))
            slot.end()

    pids = [child(lambda index=index: work(index)) for index in range(3)]
    good = gave_up = idle = 0
    deadline = time.monotonic() + 2.0
    try:
        while time.monotonic() < deadline or (good < 1000 and time.monotonic() < deadline + 20):
            for index in range(3):
                state = block.read(index)
                if state is None:
                    idle += 1
                elif state is UNREADABLE:
                    gave_up += 1
                else:
                    good += 1
                    assert is_whole(state), state
    finally:
        for pid in pids:
            kill(pid)
    print(f"{good} good, {gave_up} given up, {idle} idle")
    assert good >= 1000


def test_a_busy_slot_is_never_seen_idle(block):
    """A job that runs and tells all the time is found at every look."""

    def work() -> None:
        slot, step = block.slot(0), 0
        begin(slot, 3)
        while True:
            step += 1
            slot.progress(step * 1000 + 3, step * 2000 + 6)

    pid = child(work)
    wait_until(lambda: block.read(0), what="the job to begin")
    try:
        for _ in range(20_000):
            state = block.read(0)
            assert state is not None
            assert state is not UNREADABLE
            assert is_whole(state)
    finally:
        kill(pid)


def test_a_buried_process_leaves_an_idle_slot_and_its_successor_a_busy_one(block):
    pid = child(lambda: begin(block.slot(0), 5))
    os.waitpid(pid, 0)
    (index, life, owner) = next(block.lives())
    assert (index, owner) == (0, pid)
    assert block.read(0).pid == pid
    block.bury(0, life)
    assert block.read(0) is None
    assert block.last(0) is None
    assert list(block.lives()) == []
    begin(block.slot(0), 6)
    assert block.read(0).attempt == 6
    assert [pid for _, _, pid in block.lives()] == [os.getpid()]


def test_burying_a_predecessor_late_does_not_touch_the_successor(block):
    pid = child(lambda: begin(block.slot(0), 5))
    os.waitpid(pid, 0)
    (_, life, _) = next(block.lives())
    begin(block.slot(0), 6)
    block.bury(0, life)
    assert block.read(0).attempt == 6


def test_a_dead_process_that_was_killed_in_mid_write_can_be_buried(block):
    def work() -> None:
        begin(block.slot(0), 5)
        block.slot(0)._words[2] += 1

    os.waitpid(child(work), 0)
    assert block.read(0) is UNREADABLE
    block.bury(0, next(block.lives())[1])
    assert block.read(0) is None


def test_another_process_can_map_the_block_by_its_descriptor(block):
    begin(block.slot(3), 9)
    other = SlotBlock(os.open(f"/proc/self/fd/{block.fd}", os.O_RDWR))
    assert other.read(3).job_id == block.read(3).job_id
    assert other.flag(3, BASE + 9, 1)
    assert block.slot(3).flags == 1
    other.close()
    assert block.read(3).attempt == 9


def test_memory_of_something_else_is_refused():
    fd = os.memfd_create("something")
    os.ftruncate(fd, 8192)
    with pytest.raises(ValueError, match="holds no slots"):
        SlotBlock(fd)
    os.close(fd)


def test_children_find_the_block_that_their_parent_uses(block):
    before = current_block()
    use_block(block)
    try:
        os.waitpid(child(lambda: begin(current_block().slot(1), 4)), 0)
    finally:
        use_block(before)
    assert block.read(1).attempt == 4


def test_each_thread_of_a_process_takes_a_slot_of_its_own_and_a_given_one_is_taken_again(block):
    first, second = block.take(), block.take()
    begin(first, 1)
    begin(second, 2)
    assert {index: state.attempt for index, state in block.active()} == {0: 1, 1: 2}
    first.end()
    block.give(first)
    assert block.take() is first
