from __future__ import annotations

from sqlalchemy import inspect, text


def test_every_job_gets_its_place_and_old_indexes_go(old, upgrade_to):
    upgrade_to(old, "1_0002")
    with old.engine.connect() as connection:
        found = {row.id: row.at for row in connection.execute(text("SELECT id, at FROM denyut_jobs"))}
    assert found == {"ended": 5, "runs": 8, "waits": 3, "due": 99}
    names = {
        index["name"].removeprefix("ix_denyut_jobs_")
        for index in inspect(old.engine).get_indexes("denyut_jobs")
    }
    assert names == {"state_at", "task_at", "key_at", "dead_at", "forget"}


def test_a_place_that_is_there_is_kept(old, upgrade_to):
    with old.engine.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs ADD COLUMN at BIGINT"))
        connection.execute(text("UPDATE denyut_jobs SET at = 1 WHERE id = 'due'"))
    upgrade_to(old, "1_0002")
    with old.engine.connect() as connection:
        assert connection.execute(text("SELECT at FROM denyut_jobs WHERE id = 'due'")).scalar() == 1
