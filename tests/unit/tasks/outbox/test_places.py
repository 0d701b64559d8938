"""Which databases have an outbox, and how they are reached."""

from __future__ import annotations

import django_project
import pytest

from denyut.errors import ConfigurationError
from denyut.tasks.outbox.places import Place, places

django_project.configure()


def test_each_address_is_a_place_whose_name_does_not_depend_on_the_password(pulse):
    first = pulse(denyut_outbox_url=["sqlite:///a.db", "postgresql+psycopg://u:one@h/d"])
    second = pulse(denyut_outbox_url="postgresql+psycopg://u:two@h/d")
    one, two = places(first)
    assert two.name == places(second)[0].name != one.name
    assert two.shown == "postgresql+psycopg://u:***@h/d"
    assert places(pulse()) == ()


def test_a_sqlite_file_of_the_application_is_not_told_how_to_write(tmp_path):
    database = Place("n", "s", f"sqlite:///{tmp_path / 'app.db'}").open(1.0)
    with database.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    database.close()


def test_a_django_database_is_opened_with_what_django_knows_of_it():
    entry = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "d",
        "USER": "u",
        "PASSWORD": "p@:/",
        "HOST": "h",
    }
    entry |= {"PORT": "5433", "OPTIONS": {"sslmode": "require", "pool": True}}
    with_entry(entry)
    url = Place("n", "s", "django://extra").open(1.0).url
    assert (url.drivername, url.username, url.password, url.host) == ("postgresql+psycopg", "u", "p@:/", "h")
    assert (url.port, url.database, dict(url.query)) == (5433, "d", {"sslmode": "require"})


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"ENGINE": "django.db.backends.mysql", "NAME": "d"}, "needs PostgreSQL or SQLite"),
        ({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, "seen by one process alone"),
    ],
)
def test_a_django_database_that_can_have_no_outbox_is_refused(entry, words):
    with_entry(entry)
    with pytest.raises(ConfigurationError, match=words):
        Place("n", "s", "django://extra").open(1.0)


def test_an_alias_that_django_does_not_have_is_named():
    with pytest.raises(ConfigurationError, match="Django has no such database; DATABASES has default"):
        Place("n", "s", "django://nowhere").open(1.0)


def with_entry(entry):
    from django.db import connections

    made = connections.configure_settings({"default": {}, "extra": entry})["extra"]
    connections.settings["extra"] = made
    if hasattr(connections._connections, "extra"):
        del connections["extra"]


@pytest.fixture(autouse=True)
def without_entry():
    yield
    from django.db import connections

    connections.settings.pop("extra", None)
    if hasattr(connections._connections, "extra"):
        del connections["extra"]
