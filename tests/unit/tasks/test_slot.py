from __future__ import annotations

import os
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denyut.tasks.slot import CANCEL, LOST
from denyut.tasks.slots import SlotBlock

JOB = {"job_id": "j1", "task": "app.work", "partition": 7, "fence": 1_700_000_000_000_001, "attempt": 2}
JOB |= {"owner": "celery@host|abc"}


@pytest.fixture
def block():
    block = SlotBlock.create(8)
    yield block
    block.close()


def test_what_begins_in_a_slot_can_be_read_from_it(block):
    block.slot(3).begin(**JOB, delivery_tag="tag")
    state = block.read(3)
    assert (state.index, state.pid) == (3, os.getpid())
    assert {name: getattr(state, name) for name in JOB} == JOB
    assert state.delivery_tag == "tag"
    assert state.started_ns > 0


def test_a_job_that_has_told_nothing_is_not_at_zero(block):
    block.slot(0).begin(**JOB)
    state = block.read(0)
    assert (state.done, state.total, state.progress_seq) == (None, None, 0)
    assert (state.unit, state.stage, state.stage_seq) == ("", "", 0)


def test_a_total_of_zero_is_not_an_unknown_total(block):
    slot = block.slot(0)
    slot.begin(**JOB)
    slot.progress(0, None)
    assert (block.read(0).done, block.read(0).total) == (0.0, None)
    slot.progress(0, 0)
    assert (block.read(0).done, block.read(0).total) == (0.0, 0.0)


def test_every_call_counts_also_when_it_says_the_same(block):
    slot = block.slot(0)
    slot.begin(**JOB)
    for _ in range(3):
        slot.progress(5, 10)
    slot.unit("rows")
    for _ in range(2):
        slot.stage("LOADING")
    state = block.read(0)
    assert (state.progress_seq, state.done, state.total, state.unit) == (3, 5.0, 10.0, "rows")
    assert (state.stage_seq, state.stage) == (2, "LOADING")


def test_the_next_job_inherits_nothing(block):
    slot = block.slot(0)
    slot.begin(**JOB)
    slot.progress(5, 10)
    slot.unit("rows")
    slot.stage("LOADING")
    block.flag(0, JOB["fence"], LOST)
    slot.end()
    slot.begin(**JOB | {"job_id": "j2", "fence": JOB["fence"] + 1})
    state = block.read(0)
    assert (state.job_id, state.done, state.unit, state.stage, state.flags) == ("j2", None, "", "", 0)
    assert (state.progress_seq, state.stage_seq, slot.flags) == (0, 0, 0)
    slot.unit("bytes")
    assert block.read(0).stage == ""


def test_an_ended_slot_is_idle_and_may_be_ended_again(block):
    slot = block.slot(0)
    slot.begin(**JOB)
    slot.end()
    slot.end()
    assert block.read(0) is None


@pytest.mark.parametrize("name", ["job_id", "task", "owner", "delivery_tag"])
def test_an_identity_of_255_bytes_fits_and_one_of_256_is_refused_by_name(block, name):
    block.slot(0).begin(**JOB | {name: "é" * 127 + "x"})
    assert getattr(block.read(0), name) == "é" * 127 + "x"
    with pytest.raises(ValueError, match=f"{name}=.*256 bytes.*at most 255"):
        block.slot(0).begin(**JOB | {name: "é" * 128})


def test_the_longest_identity_leaves_room_for_everything_else(block):
    texts = {"job_id": "i" * 255, "task": "t" * 255, "owner": "o" * 255, "delivery_tag": "d" * 255}
    for index in (0, 1, 2):
        block.slot(index).begin(**JOB | texts)
    block.slot(1).stage("s" * 64)
    block.slot(1).unit("u" * 16)
    block.slot(1).progress(1, 2)
    for index in (0, 1, 2):
        state = block.read(index)
        assert {name: getattr(state, name) for name in texts} == texts
    assert (block.read(1).stage, block.read(1).unit) == ("s" * 64, "u" * 16)
    assert block.read(2).stage == ""


@pytest.mark.parametrize("change", [{"job_id": ""}, {"fence": 0}, {"fence": -1}, {"fence": 1 << 55}])
def test_a_job_without_id_or_fence_is_refused_and_the_slot_stays_as_it_is(block, change):
    block.slot(0).begin(**JOB)
    with pytest.raises(ValueError, match="need a non-empty id and a fence"):
        block.slot(0).begin(**JOB | change)
    assert block.read(0).job_id == "j1"


@given(st.text(max_size=80))
def test_long_texts_are_cut_at_a_character(text):
    block = SlotBlock.create(1)
    slot = block.slot(0)
    slot.begin(**JOB)
    slot.stage(text)
    slot.unit(text)
    state = block.read(0)
    for shown, most in ((state.stage, 64), (state.unit, 16)):
        assert text.startswith(shown)
        assert len(shown.encode()) <= most
        longer = text[: len(shown) + 1]
        assert longer == shown or len(longer.encode()) > most
    block.close()


def test_a_text_that_is_no_unicode_is_shown_with_marks(block):
    block.slot(0).begin(**JOB)
    block.slot(0).stage("bad \ud800")
    assert block.read(0).stage == "bad ?"


@pytest.mark.parametrize(("done", "total"), [("3", 4), (3, "4"), (3, object()), (10**400, None)])
def test_progress_that_is_no_number_is_refused_and_the_next_one_counts(block, done, total):
    slot = block.slot(0)
    slot.begin(**JOB)
    with pytest.raises(TypeError, match="done and total must be numbers"):
        slot.progress(done, total)
    slot.progress(Decimal("2.5"), True)
    assert (block.read(0).done, block.read(0).total) == (2.5, 1.0)


def test_flags_add_up_until_the_job_ends(block):
    slot = block.slot(0)
    slot.begin(**JOB)
    assert slot.flags == 0
    assert block.flag(0, JOB["fence"], LOST)
    assert block.flag(0, JOB["fence"], CANCEL)
    assert slot.flags == LOST | CANCEL == block.read(0).flags
    slot.end()
    assert slot.flags == 0


def test_a_flag_meant_for_another_job_is_not_set(block):
    slot = block.slot(0)
    slot.begin(**JOB)
    assert not block.flag(0, JOB["fence"] - 1, LOST)
    slot.end()
    assert not block.flag(0, JOB["fence"], LOST)
    assert slot.flags == 0


def test_a_flag_that_arrives_as_the_next_job_begins_is_not_meant_for_it(block):
    slot, words = block.slot(0), block._words
    slot.begin(**JOB)
    assert block.flag(0, JOB["fence"], LOST)
    late = words[block._slot_at(0) // 8 + 1]
    slot.begin(**JOB | {"fence": JOB["fence"] + 1})
    words[block._slot_at(0) // 8 + 1] = late  # the reader was between its look and its store
    assert slot.flags == 0
    assert block.read(0).flags == 0


def test_a_forked_child_writes_and_its_parent_reads(block):
    slot = block.slot(2)
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        slot.begin(**JOB)
        slot.progress(1, 4)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(slot.flags)
    os.read(ready[0], 1)
    state = block.read(2)
    assert (state.pid, state.job_id, state.done, state.total) == (pid, "j1", 1.0, 4.0)
    block.flag(2, JOB["fence"], CANCEL)
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CANCEL
    for fd in (*ready, *go):
        os.close(fd)


def test_a_process_that_takes_a_dead_ones_slot_finds_it_idle(block):
    slot = block.slot(0)
    pid = os.fork()
    if pid == 0:
        slot.begin(**JOB)
        slot._words[2] += 1  # killed while it wrote: the lock stays odd
        os._exit(0)
    os.waitpid(pid, 0)
    slot.enter()
    assert block.read(0) is None
    slot.begin(**JOB | {"job_id": "j2"})
    assert (block.read(0).job_id, block.read(0).pid) == ("j2", os.getpid())
