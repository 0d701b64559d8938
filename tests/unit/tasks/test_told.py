from __future__ import annotations

import pytest

from denyut.tasks.slots import SlotBlock, use_block
from denyut.tasks.told import FIELDS, last_told, told


@pytest.fixture
def block():
    block = SlotBlock.create(4)
    use_block(block)
    yield block
    use_block(None)
    block.close()


@pytest.fixture
def slot(block):
    slot = block.slot(0)
    slot.begin(job_id="j", task="t", partition=0, fence=7, attempt=1, owner="o")
    return slot


@pytest.mark.parametrize(
    ("done", "total", "texts"),
    [(3, 4, ("3", "4", "0.75")), (0, None, ("0", "", "")), (1.5, 0, ("1.5", "0", "")), (1e300, 2, None)],
)
def test_numbers_are_exact_texts_and_empty_where_nothing_was_told(block, slot, done, total, texts):
    slot.progress(done, total)
    values = dict(zip(FIELDS, told(block.read(0)), strict=True))
    if texts is None:
        assert float(values["done"]) == done
    else:
        assert (values["done"], values["total"], values["progress"]) == texts


def test_an_attempt_that_told_nothing_has_no_last_words(slot):
    assert last_told(slot) == []
    assert last_told(None) == []


def test_the_last_words_are_those_since_the_last_beat_too(slot):
    slot.unit("rows")
    slot.progress(9, 9)
    slot.stage("FINALIZING")
    said = last_told(slot)
    assert dict(zip(said[::2], said[1::2], strict=True)) == {
        "progress_seq": 1,
        "done": "9",
        "total": "9",
        "progress": "1",
        "unit": "rows",
        "stage_seq": 1,
        "stage": "FINALIZING",
    }


def test_a_completed_jobs_telemetry_has_its_last_progress(bench, block, valkey):
    from denyut import current_job

    @bench.task(name="t.works")
    def works():
        job = current_job()
        keys = bench.pulse.keys.job(job.id)
        valkey.hset(keys.telemetry, mapping={"done": 22, "total": 30, "fence": job.fence})  # the last beat
        job.progress(30, 30)
        job.stage("DONE")

    result = works.delay()
    bench.drain()
    seen = valkey.hgetall(bench.pulse.keys.job(result.id).telemetry)
    assert (seen[b"done"], seen[b"progress"], seen[b"stage"]) == (b"30", b"1", b"DONE")
    assert seen[b"status"] == b"COMPLETED"
