from __future__ import annotations

from sqlalchemy import inspect


def test_jobs_and_their_events_have_a_table_each(empty, upgrade_to):
    upgrade_to(empty, "1_0001")
    found = inspect(empty.engine)
    assert {"denyut_jobs", "denyut_events"} <= set(found.get_table_names())
    assert found.get_pk_constraint("denyut_jobs")["constrained_columns"] == ["prefix", "id"]
    assert found.get_pk_constraint("denyut_events")["constrained_columns"] == [
        "prefix",
        "job_id",
        "ms",
        "seq",
    ]
