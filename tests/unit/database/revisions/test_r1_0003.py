from __future__ import annotations

from sqlalchemy import inspect


def test_what_is_remembered_of_deleted_jobs_has_a_table(empty, upgrade_to):
    upgrade_to(empty, "1_0003")
    found = inspect(empty.engine)
    assert found.get_pk_constraint("denyut_gone")["constrained_columns"] == ["prefix", "id"]
    assert [index["column_names"] for index in found.get_indexes("denyut_gone")] == [["prefix", "gone_at"]]
