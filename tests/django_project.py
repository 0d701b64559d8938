"""A Django project for tests: configured once in a process, its databases as a test needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.conf import settings
from sqlalchemy.engine import make_url


def configure(default: dict[str, Any] | None = None) -> None:
    """Set Django up, if it is not yet."""
    if settings.configured:
        return
    settings.configure(
        DATABASES={"default": default or {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["denyut.contrib.django"],
        USE_TZ=True,
    )
    django.setup()


def as_django(url: str) -> dict[str, Any]:
    """Return an address of SQLAlchemy as an entry of ``DATABASES``."""
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.database}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.database,
        "USER": parts.username,
        "HOST": parts.host,
        "PORT": str(parts.port),
    }


@contextmanager
def database(alias: str, url: str) -> Iterator[Any]:
    """Give the project another database for a while; yields Django's connection to it."""
    configure()
    from django.db import connections

    entry = as_django(url)
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry})[alias]
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias], connections.settings[alias]
