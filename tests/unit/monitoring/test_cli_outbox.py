"""``denyut outbox``."""

from __future__ import annotations

import json

import django_project
import pytest
from sqlalchemy import create_engine, inspect, text

from denyut.database.outbox import metadata, outbox
from denyut.database.outbox_put import put_statement

django_project.configure()


@pytest.fixture
def made(make_desk, tmp_path):
    """An app with an outbox, which is there."""
    desk = make_desk(denyut_outbox_url=f"sqlite:///{tmp_path}/app.db")
    desk.engine = create_engine(f"sqlite:///{tmp_path}/app.db")
    metadata().create_all(desk.engine)
    yield desk
    desk.pulse.outbox.close()
    desk.engine.dispose()


def put(desk, job_id, **changed):
    values = {"prefix": desk.pulse.settings.prefix, "id": job_id, "task": "t.work", "key": "k"}
    with desk.engine.begin() as connection:
        connection.execute(put_statement(), {**values, "message": "{}", "due_in": None})
        if changed:
            connection.execute(outbox().update().where(outbox().c.id == job_id).values(**changed))


def ids(desk):
    with desk.engine.connect() as connection:
        return list(connection.execute(outbox().select().with_only_columns(outbox().c.id)).scalars())


def test_the_list_says_what_waits_and_what_is_wrong(made, invoke):
    put(made, "one")
    put(made, "two", try_at=None, attempts=5, error="ValueError: bad\x1b[0m")
    head, first, second = invoke(made.pulse.app, "outbox", "list").stdout.splitlines()
    assert head.split() == ["ID", "TASK", "KEY", "WRITTEN", "TRIES", "STATE", "ERROR"]
    assert first.split()[:3] == ["one", "t.work", "k"]
    assert "waits" in first
    assert "5  " in second
    assert "aside" in second
    assert "\x1b" not in second
    rows = json.loads(invoke(made.pulse.app, "outbox", "list", "--aside", "--json").stdout)["rows"]
    assert [(row["id"], row["aside"]) for row in rows] == [("two", True)]


def test_a_retry_tells_the_relays(made, invoke):
    put(made, "one", try_at=None, attempts=5)
    done = invoke(made.pulse.app, "outbox", "retry", "one")
    assert done.stdout == "1 row(s) are tried again\n"
    assert made.client.keys("*:poke")
    done = invoke(made.pulse.app, "outbox", "retry", "gone")
    assert done.exit_code == 1
    assert "1 of the jobs are in no outbox" in done.stderr
    assert json.loads(invoke(made.pulse.app, "outbox", "retry", "--all", "--json").stdout) == {"retried": 0}


def test_a_purge_asks_and_deletes(made, invoke):
    put(made, "one")
    put(made, "two", try_at=None)
    assert invoke(made.pulse.app, "outbox", "purge", "--all").exit_code == 1, "nobody said yes"
    assert ids(made) == ["one", "two"]
    assert invoke(made.pulse.app, "outbox", "purge", "--all", "--yes").stdout == "1 row(s) are deleted\n"
    assert invoke(made.pulse.app, "outbox", "purge", "one", "--yes").exit_code == 0
    assert ids(made) == []
    assert "nothing waits" in invoke(made.pulse.app, "outbox", "list").stderr


@pytest.mark.parametrize("what", ["retry", "purge"])
def test_neither_names_nor_all_is_a_wrong_use_and_so_are_both(made, invoke, what):
    assert invoke(made.pulse.app, "outbox", what).exit_code == 2
    assert invoke(made.pulse.app, "outbox", what, "one", "--all").exit_code == 2


def test_migrate_makes_the_table_and_a_check_makes_nothing(make_desk, invoke, tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    app = make_desk(denyut_outbox_url=url).pulse.app
    done = invoke(app, "outbox", "migrate", "--check")
    assert done.exit_code == 1
    assert "lacks denyut_outbox; make it: celery -A APP denyut outbox migrate" in done.stderr
    for _ in range(2):
        assert invoke(app, "outbox", "migrate").stdout == f"{url} has its table, which is Denyut's\n"
    assert json.loads(invoke(app, "outbox", "migrate", "--check", "--json").stdout) == {
        "outboxes": {url: "Denyut's"}
    }
    engine = create_engine(url)
    assert inspect(engine).get_table_names() == ["denyut_outbox"]
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE denyut_outbox DROP COLUMN task"))
    engine.dispose()
    assert (
        "lacks denyut_outbox.task; somebody has changed its table" in invoke(app, "outbox", "migrate").stderr
    )


def test_a_django_database_is_left_to_djangos_migrations(make_desk, invoke, tmp_path):
    with django_project.database("shop", f"sqlite:///{tmp_path}/shop.db"):
        app = make_desk(denyut_outbox_url="django://shop").pulse.app
        done = invoke(app, "outbox", "migrate")
        assert done.exit_code == 1
        assert "INSTALLED_APPS and run: manage.py migrate --database shop" in done.stderr
        from django.core.management import call_command

        call_command("migrate", database="shop", verbosity=0)
        assert "which is Django's" in invoke(app, "outbox", "migrate").stdout


def test_without_an_outbox_it_says_that_there_is_none(cli):
    for words in (["list"], ["migrate"], ["retry", "--all"]):
        done = cli("outbox", *words)
        assert done.exit_code == 1
        assert "there is no outbox: denyut_outbox_url is not set" in done.stderr


def test_a_database_that_cannot_be_reached_is_one_line(make_desk, invoke):
    app = make_desk(denyut_outbox_url="postgresql+psycopg://me:s3cret@127.0.0.1:1/app").pulse.app
    done = invoke(app, "outbox", "list")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert "postgresql+psycopg://me:***@127.0.0.1:1/app: " in done.stderr
    assert "s3cret" not in done.stderr
