"""A buffer in front of ``record_many``: events go out in batches, by count or by time.

What it does not guarantee: an event that is still buffered when the process is killed was never sent.
Record it again if in doubt; the same event id counts once.
"""

from __future__ import annotations

import atexit
import logging
import os
from math import isnan, nan
from threading import Event as Flag
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from celery.signals import worker_process_shutdown

from denyut.errors import ConfigurationError, InvalidEvent, RecorderClosed
from denyut.median.columns import Columns, check_events
from denyut.median.event import Event, check_stream

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from denyut.median.api import Median

__all__ = ["Recorder"]

logger = logging.getLogger(__name__)

_LIMIT_BATCHES = 100
_LONGEST_PAUSE = 5.0
_LONGEST_WAIT_MS = 3_600_000


class Recorder:
    """Buffers events by stream and sends a stream's buffer when it holds a batch, or after a while.

    Safe for many threads. Use it as a context manager, or close it; at the exit of the process (also
    of a worker's pool process) it closes itself. In a forked child it begins empty.

    Args:
        median: ``pulse.median``.
        batch: events of one stream that are sent at once.
        flush_ms: most milliseconds that an event waits for others.

    A flush that fails keeps its events. If it happened in the background, the next :meth:`record`
    raises the error instead of taking its event, and the flush is tried again all the time. While the
    broker is away, at most 100 batches are kept: then :meth:`record` tries to send, and raises.

    Raises:
        ConfigurationError: if ``flush_ms`` is not a number from 1 to 3,600,000.
    """

    def __init__(self, median: Median, *, batch: int, flush_ms: float = 200.0) -> None:
        self._median = median
        self._batch = batch
        self._pause = _checked_ms(flush_ms) / 1000
        self._begin()
        atexit.register(self._at_exit)
        worker_process_shutdown.connect(self._at_exit)  # a pool process ends without atexit

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()  # guards the four below
        self._buffers: dict[str, Columns] = {}
        self._pending = 0
        self._closed = False
        self._error: BaseException | None = None
        self._sending = Lock()  # held by the one thread that flushes
        self._wake, self._stop = Flag(), Flag()
        self._thread: Thread | None = None

    def record(self, stream: str, value: Any, *, event_id: str, at: datetime | float | None = None) -> None:
        """Take one event; arguments as :meth:`Median.record`.

        Raises:
            InvalidStream, InvalidEvent: with the reason; the event was not taken.
            RecorderClosed: after :meth:`close`.
            Exception: what the broker raised, in the background before (this event was not taken) or
                now (it is kept). Record the event again in either case: it counts once.
        """
        self._own_process()
        check_stream(stream)
        columns, errors = check_events([Event(value, event_id, at)])
        if errors:
            raise InvalidEvent(errors)
        self._raise_background_error()
        if self.pending >= _LIMIT_BATCHES * self._batch:
            self.flush()
        if self._take(stream, columns) >= self._batch:
            self._send_full(stream)

    @property
    def pending(self) -> int:
        """Number of events that are buffered, those being sent included."""
        return self._pending

    def flush(self) -> int:
        """Send everything that is buffered by now and return how many events that were.

        Raises:
            Exception: what the broker raised; the events that were not sent are kept.
        """
        self._own_process()
        sent = 0
        with self._sending:
            with self._lock:
                todo = {stream: len(buffer) for stream, buffer in self._buffers.items()}
            for stream, size in todo.items():
                goal = sent + size
                while sent < goal:
                    sent += self._send_first(stream)
            with self._lock:
                self._error = None
        return sent

    def close(self) -> None:
        """Flush and end. May be called again: after a success it does nothing, after an error it retries.

        Raises:
            Exception: what the broker raised; the events are kept, and the recorder stays open.
        """
        self._own_process()
        while not self._closed:
            self.flush()
            with self._lock:
                self._closed = not self._buffers  # an event may have come since
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        atexit.unregister(self._at_exit)
        worker_process_shutdown.disconnect(self._at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder {'closed' if self._closed else f'with {self.pending} events'}>"

    def _take(self, stream: str, columns: Columns) -> int:
        with self._lock:
            if self._closed:
                raise RecorderClosed("this recorder is closed; the event was not kept")
            buffer = self._buffers.setdefault(stream, Columns([], [], []))
            assert buffer.at is not None
            buffer.values += columns.values
            buffer.ids += columns.ids
            buffer.at += columns.at or [nan]
            self._pending += 1
            if self._thread is None:
                self._thread = Thread(target=self._run, name="denyut-recorder", daemon=True)
                self._thread.start()
            size = len(buffer)
        self._wake.set()
        return size

    def _send_full(self, stream: str) -> None:
        with self._sending:
            while len(self._buffers.get(stream, ())) >= self._batch:
                self._send_first(stream)

    def _send_first(self, stream: str) -> int:
        """Send the oldest events of ``stream``, and only then take them out of the buffer."""
        with self._lock:
            buffer = self._buffers[stream]
            assert buffer.at is not None
            at = buffer.at[: self._batch]
            times = None if all(map(isnan, at)) else at
            part = Columns(buffer.values[: self._batch], buffer.ids[: self._batch], times)
        self._median.send(stream, part)
        size = len(part)
        with self._lock:
            del buffer.values[:size], buffer.ids[:size], buffer.at[:size]
            self._pending -= size
            if not buffer:
                del self._buffers[stream]
        return size

    def _raise_background_error(self) -> None:
        with self._lock:
            error, self._error = self._error, None
        if error is not None:
            error.add_note(
                f"{self.pending} recorded event(s) are kept and will be sent; this one was not taken"
            )
            raise error

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._wake.wait()
            self._stop.wait(self._pause if not failures else min(_LONGEST_PAUSE, self._pause * 2**failures))
            if self._stop.is_set():
                return
            self._wake.clear()
            try:
                self.flush()
                failures = 0
            except Exception as exc:
                failures = min(failures + 1, 16)
                logger.exception("%d event(s) could not be sent; they are kept", self.pending)
                with self._lock:
                    self._error = exc
                self._wake.set()

    def _at_exit(self, **_: Any) -> None:
        try:
            self.close()
        except Exception:
            logger.critical("this process ends and %d event(s) were never sent", self.pending)
            raise

    def _own_process(self) -> None:
        if self._pid != os.getpid():  # the buffer is the parent's, and so are its thread and its locks
            self._begin()


def _checked_ms(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _LONGEST_WAIT_MS:
        raise ConfigurationError(f"flush_ms={value!r}: must be a number from 1 to {_LONGEST_WAIT_MS} (ms)")
    return float(value)
