"""``denyut migrate``."""

from __future__ import annotations

import json

from sqlalchemy import inspect, text


def test_it_makes_the_tables_and_may_be_run_again(make_desk, invoke, tmp_path):
    pulse = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db").pulse
    assert invoke(pulse.app, "migrate").stdout == "there are now: denyut_events, denyut_gone, denyut_jobs\n"
    found = json.loads(invoke(pulse.app, "migrate", "--json").stdout)["tables"]
    assert set(found) == set(inspect(pulse.database.engine).get_table_names())


def test_a_check_makes_nothing_and_names_what_is_missing(make_desk, invoke, tmp_path):
    pulse = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db").pulse
    done = invoke(pulse.app, "migrate", "--check")
    assert done.exit_code == 1
    assert "the job store lacks denyut_events, denyut_gone, denyut_jobs; make the tables" in done.stderr
    assert inspect(pulse.database.engine).get_table_names() == []
    invoke(pulse.app, "migrate")
    assert invoke(pulse.app, "migrate", "--check").exit_code == 0


def test_tables_of_an_older_version_are_not_called_made(make_desk, invoke, tmp_path):
    pulse = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db").pulse
    pulse.database.create()
    with pulse.database.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_jobs DROP COLUMN due"))
    done = invoke(pulse.app, "migrate")
    assert done.exit_code == 1
    assert "add denyut_jobs.due" in done.stderr


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
