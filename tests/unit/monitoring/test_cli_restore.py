"""``denyut jobs restore``."""

from __future__ import annotations

import json

import pytest

from denyut.tasks.saving.writer import save


@pytest.fixture
def stored(make_desk, tmp_path):
    made = make_desk(denyut_database_url=f"sqlite:///{tmp_path}/jobs.db")
    made.pulse.database.create()
    return made


def test_it_says_how_many_jobs_were_put_back(stored, invoke):
    stored.scheduled("lost", 60)
    stored.scheduled("known", 60)
    save(stored.pulse, stored.client, ["lost", "known"])
    stored.client.delete(stored.pulse.keys.job("lost").record)
    app = stored.pulse.app
    assert invoke(app, "jobs", "restore").stdout == "1 job(s) were put back\n"
    assert json.loads(invoke(app, "jobs", "restore", "--json").stdout) == {"put_back": 0}


def test_without_a_store_it_says_that_there_is_none(cli):
    done = cli("jobs", "restore")
    assert done.exit_code == 1
    assert "denyut_database_url is not set" in done.stderr
