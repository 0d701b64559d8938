"""``denyut migrate``."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import inspect, text

from denyut.database.revision import HEAD, TABLE
from denyut.database.tables import metadata


@pytest.fixture
def stored(make_desk, tmp_path):
    return make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db").pulse


def be(stored, revision: str) -> None:
    stored.database.create()
    with stored.database.engine.begin() as connection:
        connection.execute(text(f"UPDATE {TABLE} SET version_num = '{revision}'"))


def test_it_makes_the_tables_and_may_be_run_again(stored, invoke):
    assert f"are of revision {HEAD}, as this version" in invoke(stored.app, "migrate").stdout
    found = json.loads(invoke(stored.app, "migrate", "--json").stdout)
    assert found == {"before": HEAD, "revision": HEAD, "needed": HEAD, "standing": "equal", "missing": []}
    assert {*metadata().tables, TABLE} == set(inspect(stored.database.engine).get_table_names())


def test_a_check_changes_nothing_and_says_what_there_is(stored, invoke):
    done = invoke(stored.app, "migrate", "--check")
    assert (done.exit_code, "has no tables; make them" in done.stderr) == (3, True)
    assert inspect(stored.database.engine).get_table_names() == []
    invoke(stored.app, "migrate")
    assert invoke(stored.app, "migrate", "--check").exit_code == 0


@pytest.mark.parametrize(
    ("revision", "code", "standing"),
    [("1_0001", 3, "older"), ("1_9999", 0, "newer"), ("2_0001", 4, "strange")],
)
def test_the_exit_code_of_a_check_says_whether_workers_of_this_version_can_start(
    stored, invoke, revision, code, standing
):
    be(stored, revision)
    done = invoke(stored.app, "migrate", "--check", "--json")
    assert done.exit_code == code
    assert json.loads(done.stdout)["standing"] == standing
    assert revision in invoke(stored.app, "migrate", "--check").output


def test_tables_of_another_generation_are_an_error(stored, invoke):
    be(stored, "2_0001")
    done = invoke(stored.app, "migrate")
    assert (done.exit_code, "cannot read; use the version that made them" in done.stderr) == (1, True)


def test_tables_that_somebody_has_changed_are_not_called_what_they_should_be(stored, invoke):
    stored.database.create()
    with stored.database.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs DROP COLUMN due"))
    for args in (("migrate",), ("migrate", "--check")):
        done = invoke(stored.app, *args)
        assert (done.exit_code, "lacks denyut_jobs.due" in done.stderr) == (1, True)


def test_a_store_that_cannot_be_reached_is_one_line(make_desk, invoke):
    pulse = make_desk(denyut_database_url="postgresql+psycopg://me:s3cret@127.0.0.1:1/jobs").pulse
    done = invoke(pulse.app, "migrate")
    assert done.exit_code == 1
    assert "the job store: " in done.stderr
    assert "s3cret" not in done.stderr


def test_without_a_store_it_says_that_there_is_none(cli):
    done = cli("migrate")
    assert done.exit_code == 1
    assert "denyut_database_url is not set" in done.stderr
