from __future__ import annotations

from sqlalchemy import inspect


def test_what_redis_should_have_is_indexed_in_two_parts(old, upgrade_to):
    upgrade_to(old, "1_0005")
    columns = {each["name"]: each["column_names"] for each in inspect(old.engine).get_indexes("denyut_jobs")}
    assert columns["ix_denyut_jobs_forget"] == ["prefix", "forget_at", "id"]
    assert columns["ix_denyut_jobs_endless"] == ["prefix", "id"]
