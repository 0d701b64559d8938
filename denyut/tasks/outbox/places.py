"""The databases that have an outbox, as the setting ``denyut_outbox_url`` names them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from denyut.config import hide_password
from denyut.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from denyut.app import Denyut
    from denyut.database.engine import Database

__all__ = ["DJANGO", "Place", "places"]

DJANGO = "django://"

_SETTING = "denyut_outbox_url"

#: Django's engines, and what they are to SQLAlchemy.
_ENGINES = {
    "django.db.backends.sqlite3": "sqlite",
    "django.db.backends.postgresql": "postgresql",
    "django.contrib.gis.db.backends.spatialite": "sqlite",
    "django.contrib.gis.db.backends.postgis": "postgresql",
}
#: Words of libpq that may stand in Django's OPTIONS; the others there are Django's own.
_LIBPQ = ("service", "passfile", "sslmode", "sslrootcert", "sslcert", "sslkey", "application_name")


@dataclass(frozen=True, slots=True)
class Place:
    """One database. ``name`` stands in its keys, ``shown`` is its address without the password."""

    name: str
    shown: str
    address: str

    @property
    def alias(self) -> str | None:
        """Which of Django's databases it is; None if it is named by its address."""
        return self.address.removeprefix(DJANGO) if self.address.startswith(DJANGO) else None

    def open(self, timeout: float) -> Database:
        """Return the database; it connects when first used.

        Raises:
            ConfigurationError: there is no such database, or its driver is not installed.
        """
        from denyut.database.engine import Database

        url: str | URL = self.address if self.alias is None else _url_of_django(self.alias)
        return Database(url, timeout=timeout, ours=False, setting=_SETTING)


def places(pulse: Denyut) -> tuple[Place, ...]:
    """Return all databases with an outbox; none if there are none."""
    return tuple(_place(url) for url in pulse.settings.outbox_urls)


def _place(url: str) -> Place:
    shown = hide_password(url)
    return Place(sha256(shown.encode()).hexdigest()[:8], shown, url)


def _url_of_django(alias: str) -> URL:
    """Return the address of one of Django's databases."""
    from sqlalchemy import URL

    given = _django_settings(alias)
    engine = _ENGINES.get(given["ENGINE"])
    if engine is None:
        raise ConfigurationError(
            f"{_SETTING}='{DJANGO}{alias}': its ENGINE is {given['ENGINE']!r}; an outbox needs PostgreSQL or "
            "SQLite"
        )
    if engine == "sqlite":
        name = str(given["NAME"])
        if ":memory:" in name or "mode=memory" in name:
            raise ConfigurationError(
                f"{_SETTING}='{DJANGO}{alias}': a database in memory is seen by one process alone; use a file"
            )
        return URL.create("sqlite", database=name)
    options = {name: str(value) for name, value in given.get("OPTIONS", {}).items() if name in _LIBPQ}
    return URL.create(
        f"postgresql+{_driver()}",
        username=given.get("USER") or None,
        password=given.get("PASSWORD") or None,
        host=given.get("HOST") or None,
        port=int(given["PORT"]) if given.get("PORT") else None,
        database=given.get("NAME") or None,
        query=options,
    )


def _driver() -> str:
    """Return the driver that Django uses itself, which may be the older one."""
    from importlib.util import find_spec

    return "psycopg" if find_spec("psycopg") is not None else "psycopg2"


def _django_settings(alias: str) -> dict[str, Any]:
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.db import connections
    except ImportError as exc:
        raise ConfigurationError(
            f"{_SETTING}='{DJANGO}{alias}': Django is not installed: pip install 'denyut[django]'"
        ) from exc
    try:
        known: dict[str, dict[str, Any]] = connections.settings
    except ImproperlyConfigured as exc:
        raise ConfigurationError(f"{_SETTING}='{DJANGO}{alias}': {exc}") from exc
    if alias not in known:
        raise ConfigurationError(
            f"{_SETTING}='{DJANGO}{alias}': Django has no such database; DATABASES has {', '.join(known)}"
        )
    return known[alias]
