"""Writing into an outbox with Django's own connection, in whatever ``atomic()`` it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.database.outbox import DIALECTS, OUTBOX, is_missing
from denyut.database.outbox_put import put_text
from denyut.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DjangoWriter"]


class DjangoWriter:
    """Writes with the connection of this thread to one of Django's databases.

    Args:
        alias: in Django's ``DATABASES``.

    Raises:
        ConfigurationError: Django, or the database, is not there, or can have no outbox.
    """

    def __init__(self, alias: str) -> None:
        try:
            from django.core.exceptions import ImproperlyConfigured
            from django.db import connections
            from django.utils.connection import ConnectionDoesNotExist
        except ImportError as exc:
            raise ConfigurationError(
                f"{alias!r} names one of Django's databases, and Django is not installed: "
                "pip install 'denyut[django]'"
            ) from exc
        try:
            self._connection: Any = connections[alias]
        except ImproperlyConfigured as exc:
            raise ConfigurationError(
                f"{alias!r} names one of Django's databases, and Django is not set up here: set "
                "DJANGO_SETTINGS_MODULE, or give a Session or Connection of SQLAlchemy"
            ) from exc
        except ConnectionDoesNotExist as exc:
            raise ConfigurationError(
                f"Django has no database {alias!r}; DATABASES has {', '.join(connections)}"
            ) from exc
        self._alias = alias
        if self._connection.vendor not in DIALECTS:
            raise ConfigurationError(
                f"an outbox needs {' or '.join(DIALECTS)}, not {self._connection.vendor}"
            )

    def write(self, rows: list[Mapping[str, Any]]) -> None:
        """Write rows in the transaction as it stands; without one they are committed at once.

        Raises:
            ConfigurationError: there is no table.
            django.db.Error: what the database says.
        """
        from django.db.utils import OperationalError, ProgrammingError

        try:
            with self._connection.cursor() as cursor:
                for row in rows:
                    cursor.execute(*put_text(self._connection.vendor, row))
        except (OperationalError, ProgrammingError) as exc:
            if not is_missing(exc):
                raise
            raise ConfigurationError(
                f"there is no table {OUTBOX} in Django's database {self._alias!r}; put "
                "'denyut.contrib.django' into INSTALLED_APPS and run: "
                f"manage.py migrate --database {self._alias}"
            ) from exc

    def after_commit(self, hook: Callable[[], None]) -> None:
        """Call ``hook`` once, when the outermost ``atomic()`` has committed; at once without one."""
        from django.db import transaction

        transaction.on_commit(hook, using=self._alias, robust=True)
