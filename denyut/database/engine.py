"""The connection to the job store: one engine per process, made when first used, not shared across a fork."""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url

from denyut.config import hide_password
from denyut.database.revision import check_schema
from denyut.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL, Connection, Engine

__all__ = ["Database"]


class Database:
    """The database of one app.

    Args:
        url: for SQLAlchemy: ``sqlite:///...`` or ``postgresql+psycopg://...``.
        timeout: seconds to wait for a connection, for a lock, and for one statement.
        ours: whether it is the job store: a SQLite file is told how to write, and the tables are looked at.
        setting: that names it, for errors.

    Raises:
        ConfigurationError: the driver is not installed.
    """

    def __init__(
        self, url: str | URL, *, timeout: float, ours: bool = True, setting: str = "denyut_database_url"
    ) -> None:
        self.url = make_url(url)
        try:
            self.url.get_dialect().import_dbapi()
        except ImportError as exc:
            raise ConfigurationError(
                f"{setting}={hide_password(str(url))!r}: its driver is not installed ({exc}); "
                "for PostgreSQL: pip install 'denyut[postgres]'"
            ) from exc
        self.timeout = timeout
        self._ours = ours
        self._lock = Lock()
        self._pid = 0
        self._engine: Engine | None = None
        self._checked: Engine | None = None

    @property
    def engine(self) -> Engine:
        """This process's engine."""
        if self._engine is None or self._pid != os.getpid():
            self._renew()
        assert self._engine is not None
        return self._engine

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a connection and a transaction, which commits at the end of the ``with`` block.

        Raises:
            SchemaMismatch: this version of Denyut cannot work with the tables. That is looked at by each
                process until they are as they must be; then not again.
            sqlalchemy.exc.SQLAlchemyError: the database cannot be asked.
        """
        engine = self.engine
        with engine.begin() as connection:
            if self._ours and self._checked is not engine:
                check_schema(connection)
                self._checked = engine
            yield connection

    def check(self) -> None:
        """Look at the tables. Raises as :meth:`begin` does."""
        with self.engine.begin() as connection:
            check_schema(connection)

    def create(self) -> None:
        """Bring the tables to the revision that this version needs. Raises as ``migrate`` does."""
        from denyut.database.migrate import migrate

        migrate(self.engine)

    def close(self) -> None:
        """Close this process's connections; the next use opens others."""
        if self._engine is not None:
            self._engine.dispose(close=self._pid == os.getpid())
        self._engine, self._checked, self._pid = None, None, 0

    def _renew(self) -> None:
        if not self._lock.acquire(timeout=self.timeout):
            self._lock = Lock()  # it was held by another thread at the moment of the fork
            return self._renew()
        try:
            if self._engine is None or self._pid != os.getpid():
                if self._engine is not None:
                    self._engine.dispose(close=False)  # the sockets are the parent's
                self._engine, self._pid = self._make(), os.getpid()
        finally:
            self._lock.release()
        return None

    def _make(self) -> Engine:
        lite = self.url.get_backend_name() == "sqlite"
        options: dict[str, Any] = {"timeout": self.timeout} if lite else {}
        if self.url.get_backend_name() == "postgresql":
            # libpq takes whole seconds, and two at least. A server that hangs is the caller's to give up.
            options = {
                "connect_timeout": max(2, round(self.timeout)),
                # A host that is gone says nothing: it is noticed within some seconds, not hours.
                "keepalives_idle": 5,
                "keepalives_interval": 2,
                "keepalives_count": 3,
                "tcp_user_timeout": 10_000,
                "options": f"-c statement_timeout={round(self.timeout * 1000)}",
            }
        engine = create_engine(self.url, connect_args=options, pool_pre_ping=not lite, pool_recycle=1800)
        if lite and self._ours:
            event.listen(engine, "connect", _many_processes)
        return engine


def _many_processes(connection: Any, _: Any) -> None:
    """Let readers of a SQLite file not wait for its writer, and commit without a sync of the disk each."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
