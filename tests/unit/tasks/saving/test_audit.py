"""Whatever is done by hand is in the audit, whatever happens in between."""

from __future__ import annotations

import json
import os
from socket import gethostname

import pytest
from redis.exceptions import RedisError

from denyut.database.audit import UNKNOWN, read_audit
from denyut.errors import AuditFailed
from denyut.tasks.saving import audit as module
from denyut.tasks.saving.applier import Applier
from denyut.tasks.saving.audit import audited, drain_audit
from denyut.tasks.saving.backlog import read_backlog


def rows(shelves) -> list[dict]:
    with shelves.pulse.database.begin() as connection:
        return read_audit(connection, shelves.pulse.settings.prefix)


def waiting(shelves) -> list[dict]:
    return [json.loads(text) for text in shelves.client.hvals(shelves.pulse.keys.audit())]


def test_who_did_what_to_which_job_when_why_and_what_came_of_it(shelves):
    job = shelves.work.delay()
    before = shelves.pulse.store.now_us()
    with audited(shelves.pulse, "cancel", job_id=job.id, by="ann", reason="a mistake", ticket=7) as entry:
        entry.after = "CANCELLED"
    [row] = rows(shelves)
    assert before <= row.pop("at") <= shelves.pulse.store.now_us()
    del row["id"]
    assert row == {
        "prefix": shelves.pulse.settings.prefix,
        "actor": "ann",
        "host": gethostname(),
        "pid": os.getpid(),
        "action": "cancel",
        "job_id": job.id,
        "state_before": "QUEUED",
        "state_after": "CANCELLED",
        "outcome": "done",
        "reason": "a mistake",
        "more": '{"ticket": 7}',
    }
    assert waiting(shelves) == []


def test_an_action_that_is_refused_is_in_it_with_the_error(shelves):
    with pytest.raises(ValueError, match="no"), audited(shelves.pulse, "retry", job_id="j"):
        raise ValueError("no")
    [row] = rows(shelves)
    assert row["outcome"] == "refused: ValueError: no"


def test_while_the_store_is_down_it_is_kept_and_a_worker_writes_it_later(shelves):
    shelves.pulse.saving.breaker.failed(OSError("away"))
    with audited(shelves.pulse, "cancel", job_id="j"):
        pass
    assert rows(shelves) == []
    assert read_backlog(shelves.pulse, shelves.client).audit == 1
    shelves.pulse.saving.breaker.worked()
    Applier(shelves.pulse).step()
    assert [row["outcome"] for row in rows(shelves)] == ["done"]
    assert read_backlog(shelves.pulse, shelves.client).audit == 0


def test_one_whose_process_died_in_between_is_unknown_after_a_while_until_somebody_says_more(
    shelves, monkeypatch
):
    with audited(shelves.pulse, "purge") as entry:
        assert drain_audit(shelves.pulse, shelves.client) == 0  # it may still be at work
        monkeypatch.setattr(module, "_CUT_SHORT", 0.0)
        assert drain_audit(shelves.pulse, shelves.client) == 1
        assert [row["outcome"] for row in rows(shelves)] == [UNKNOWN]
        entry.more["count"] = 5
    [row] = rows(shelves)
    assert (row["outcome"], row["more"]) == ("done", '{"count": 5}')


def test_an_entry_that_changes_while_it_is_written_is_written_again(shelves, monkeypatch):
    monkeypatch.setattr(module, "_CUT_SHORT", 0.0)
    save, texts = module._save, []

    def slow(pulse, client, found):
        texts.append(found)
        key = shelves.pulse.keys.audit()
        for entry_id, text in found.items():
            client.hset(key, entry_id, json.dumps(json.loads(text) | {"outcome": "done"}))
        return save(pulse, client, found)

    shelves.pulse.saving.breaker.failed(OSError("away"))
    with audited(shelves.pulse, "purge"):
        shelves.pulse.saving.breaker.worked()
        monkeypatch.setattr(module, "_save", slow)
        drain_audit(shelves.pulse, shelves.client)
        assert [entry["outcome"] for entry in waiting(shelves)] == ["done"]
        monkeypatch.setattr(module, "_save", save)
    assert [row["outcome"] for row in rows(shelves)] == ["done"]


@pytest.fixture
def fragile(make_shelves, restartable_valkey):
    """Shelves on a Redis that may die."""
    url = restartable_valkey.url
    return make_shelves(broker_url=url, result_backend=url, denyut_redis_timeout=0.5)


def test_a_write_that_fails_is_told_to_whoever_acts_and_the_entry_stays(fragile, restartable_valkey):
    acted = []
    says = r"cancel j: how it ended could not be noted.*it was done"
    with pytest.raises(AuditFailed, match=says), audited(fragile.pulse, "cancel", job_id="j"):
        acted.append(restartable_valkey.kill())
    assert len(acted) == 1
    restartable_valkey.start()
    assert [entry["outcome"] for entry in waiting(fragile)] == [""]


def test_an_error_of_the_action_is_not_hidden_by_one_of_the_audit(fragile, restartable_valkey):
    def act() -> None:
        with audited(fragile.pulse, "cancel", job_id="j"):
            restartable_valkey.kill()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        act()
    assert "could not be noted in the audit" in caught.value.__notes__[0]


def test_what_cannot_even_be_begun_is_not_done(fragile, restartable_valkey):
    restartable_valkey.kill()
    with pytest.raises(RedisError), audited(fragile.pulse, "cancel", job_id="j"):
        pytest.fail("it was done")


def test_without_a_store_nothing_is_noted(bench):
    with audited(bench.pulse, "cancel", job_id="j"):
        pass
    assert bench.pulse.store.client.exists(bench.pulse.keys.audit()) == 0


def test_texts_that_no_column_takes_are_mended(make_shelves, postgres):
    shelves = make_shelves(url=postgres)
    with audited(shelves.pulse, "cancel", job_id="a\0b", by="x" * 5000, reason="\0", odd="\0"):
        pass
    [row] = rows(shelves)
    assert (row["job_id"], len(row["actor"]), row["reason"]) == ("a\\x00b", 500, "\\x00")
