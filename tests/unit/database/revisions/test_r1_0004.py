from __future__ import annotations

from sqlalchemy import inspect


def test_what_was_done_by_hand_has_a_table(empty, upgrade_to):
    upgrade_to(empty, "1_0004")
    found = inspect(empty.engine)
    assert found.get_pk_constraint("denyut_audit")["constrained_columns"] == ["prefix", "id"]
    columns = {index["name"]: index["column_names"] for index in found.get_indexes("denyut_audit")}
    assert columns == {
        "ix_denyut_audit_at": ["prefix", "at", "id"],
        "ix_denyut_audit_job": ["prefix", "job_id", "at", "id"],
    }
