"""Which running jobs are let go of, and why."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from denyut.config import Settings
from denyut.signals.watchdog import Watchdog
from denyut.tasks.slots import SlotBlock

SETTINGS = Settings(on_stall="interrupt", stall_after=0.5)


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    yield block
    block.close()


def begin(block, index=0, fence=7, **options):
    slot = block.slot(index)
    slot.begin(job_id=f"j{fence}", task="t", partition=3, fence=fence, attempt=1, owner="w|b", **options)
    return block.read(index)


@pytest.fixture
def idle_process():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process.pid
    process.kill()
    process.wait()


def look_until(watchdog, job, *, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := watchdog.look([job]):
            return found
        time.sleep(0.02)  # between two looks
    return []


def test_a_job_that_neither_moves_nor_computes_is_let_go_of_once(block, idle_process):
    job = replace(begin(block), pid=idle_process)
    watchdog = Watchdog(SETTINGS)
    assert watchdog.look([job]) == []
    assert watchdog.kept([job]) == [job]
    [gone] = look_until(watchdog, job)
    assert (gone.kind, gone.at_once) == ("stalled", False)
    assert "used no CPU for stall_after=0.5 s" in gone.why
    assert watchdog.kept([job]) == []
    assert watchdog.look([job]) == []


def test_any_sign_of_life_begins_the_time_anew(block, idle_process):
    job = replace(begin(block), pid=idle_process)
    watchdog = Watchdog(SETTINGS)
    began = time.monotonic()
    for step in range(1000):
        if time.monotonic() > began + 3 * SETTINGS.stall_after:
            break
        assert watchdog.look([replace(job, progress_seq=step)]) == []
        time.sleep(0.02)  # between two looks
    assert watchdog.look([replace(job, stage_seq=1)]) == []


def test_a_process_that_computes_is_not_stalled(block):
    job = begin(block)
    watchdog = Watchdog(SETTINGS)
    assert job.pid == os.getpid()
    end = time.monotonic() + 2 * SETTINGS.stall_after
    while time.monotonic() < end:
        assert watchdog.look([job]) == []
        sum(range(10_000))


def test_it_is_only_shown_by_default(block, idle_process):
    job = replace(begin(block), pid=idle_process)
    assert look_until(Watchdog(Settings(stall_after=0.5)), job, seconds=1.2) == []


def test_to_kill_is_to_kill_at_once(block, idle_process):
    job = replace(begin(block), pid=idle_process)
    [gone] = look_until(Watchdog(Settings(on_stall="kill", stall_after=0.5)), job)
    assert gone.at_once


def test_a_job_that_runs_too_long_is_let_go_of_however_busy_it_is(block):
    job = begin(block, max_runtime=0.3)
    assert job.max_runtime == 0.3
    watchdog = Watchdog(Settings())
    assert watchdog.look([job]) == []
    [gone] = look_until(watchdog, job)
    assert (gone.kind, gone.at_once) == ("overran", False)
    assert gone.why == "it ran longer than max_runtime=0.3 s"


def test_the_next_job_of_the_slot_is_not_meant(block):
    first = begin(block, max_runtime=0.01)
    watchdog = Watchdog(Settings())
    assert look_until(watchdog, first)
    second = begin(block, fence=8)
    assert watchdog.look([second]) == []
    assert watchdog.kept([second]) == [second]
