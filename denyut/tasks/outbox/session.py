"""Writing into an outbox with the transaction of a Session, or Connection, of SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.orm import Session, scoped_session

from denyut.database.outbox import DIALECTS, OUTBOX, is_missing
from denyut.database.outbox_put import put_statement
from denyut.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["SessionWriter"]


class SessionWriter:
    """Writes with one Session or Connection.

    Raises:
        TypeError: it is neither.
        ConfigurationError: its database can have no outbox.
    """

    def __init__(self, session: Any) -> None:
        if isinstance(session, scoped_session):
            session = session()
        if not isinstance(session, Session | Connection):
            raise TypeError(
                "an outbox takes a Session or Connection of SQLAlchemy, or the alias of one of Django's "
                f"databases, not {type(session).__name__}. An AsyncSession: "
                "await session.run_sync(app.denyut.outbox.enqueue, task.s(...))"
            )
        self._session = session
        self._dialect = (session if isinstance(session, Connection) else session.connection()).dialect.name
        if self._dialect not in DIALECTS:
            raise ConfigurationError(f"an outbox needs {' or '.join(DIALECTS)}, not {self._dialect}")

    def write(self, rows: list[Mapping[str, Any]]) -> None:
        """Write rows (see :func:`denyut.database.outbox_put.put_statement`) in the transaction as it stands.

        Raises:
            ConfigurationError: there is no table.
            sqlalchemy.exc.SQLAlchemyError: what the database says.
        """
        try:
            self._session.execute(put_statement(), rows)
        except (OperationalError, ProgrammingError) as exc:
            if not is_missing(exc):
                raise
            raise ConfigurationError(
                f"there is no table {OUTBOX} in this database; make it: celery -A APP denyut outbox migrate "
                "(with this database in denyut_outbox_url), or put denyut.database.outbox.metadata() into "
                "your migrations"
            ) from exc

    def after_commit(self, hook: Callable[[], None]) -> None:
        """Call ``hook`` once, when the transaction has committed; for a Connection just before it does."""
        first = self._session not in _waiting
        _waiting[self._session] = hook
        if first:  # for good: a listener must not be removed while it is called
            _listen(self._session)


#: What has something in an outbox that is not committed, and what is to be called then.
_waiting: WeakKeyDictionary[Any, Callable[[], None] | None] = WeakKeyDictionary()


def _listen(session: Any) -> None:
    if isinstance(session, Connection):
        event.listen(session, "commit", _committed)
        event.listen(session, "rollback", _forgotten)
        return
    event.listen(session, "after_commit", _session_committed)
    event.listen(session, "after_transaction_end", _session_ended)


def _committed(session: Any) -> None:
    hook, _waiting[session] = _waiting.get(session), None
    if hook is not None:
        hook()


def _forgotten(session: Any) -> None:
    _waiting[session] = None


def _session_committed(session: Session) -> None:
    if not session.in_nested_transaction():
        _committed(session)


def _session_ended(session: Session, transaction: Any) -> None:
    if transaction.parent is None:  # not a savepoint
        _forgotten(session)
