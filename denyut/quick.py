"""A Redis client that runs scripts with little ado: its own packing, and a connection that is at hand.

Claim and finish are what a job costs, and half of their cost was in the client: redis-py packs each
argument with care, asks the pool for a connection, and polls it for news. Here the same command goes
over redis-py's own connection in one piece. Nothing else differs: whatever goes wrong with the
connection is left to the usual way, which connects again and retries. (Protocol: Redis, "RESP".)
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["QuickRedis", "packed"]


class QuickRedis(Redis):
    """``redis.Redis`` with :meth:`quick`. Safe to use from any thread, as its parent is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._at_hand: deque[Any] = deque()  # connections that are ours, and idle

    def quick(self, commands: Sequence[bytes]) -> list[Any]:
        """Send packed commands in one piece, and return their replies in order; errors among them.

        Raises:
            redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError: it is not known which
                commands have run. It is not tried again here.
        """
        connection = self.borrow()
        try:
            connection.send_packed_command([b"".join(commands)])
            replies = [_reply(connection) for _ in commands]
        except BaseException:
            connection.disconnect()  # what else arrives on it is the reply to something else
            raise
        finally:
            self.give_back(connection)
        return replies

    def borrow(self) -> Any:
        """Return a connection that is at hand, or a new one: for the calling thread alone."""
        try:
            return self._at_hand.pop()
        except IndexError:
            return self.connection_pool.make_connection()

    def give_back(self, connection: Any) -> None:
        """Take back what :meth:`borrow` returned: no reply is outstanding on it, or it is disconnected."""
        self._at_hand.append(connection)

    def close(self) -> None:
        """Close all connections."""
        while self._at_hand:
            self._at_hand.pop().disconnect()
        super().close()


def packed(arguments: Sequence[Any]) -> bytes:
    """Return one command as RESP: an array of bulk strings."""
    texts = []
    for argument in arguments:
        kind = type(argument)
        if kind is str:
            text = argument
        elif kind is int or kind is float:
            text = repr(argument)
        else:
            return _packed_bytes(arguments)
        if not text.isascii():
            return _packed_bytes(arguments)
        texts.append(f"${len(text)}\r\n{text}\r\n")
    return f"*{len(texts)}\r\n{''.join(texts)}".encode()


def _packed_bytes(arguments: Sequence[Any]) -> bytes:
    """Return the same where not all are plain numbers and texts in ASCII."""
    parts = []
    for argument in arguments:
        if isinstance(argument, bytes):
            raw = argument
        elif isinstance(argument, str):  # also a subclass of it, such as a state
            raw = argument.encode()
        else:
            raw = repr(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as exc:
        # It is a value here: with its traceback it would keep alive what the callers have in hand.
        return exc.with_traceback(None)
