"""Enqueueing many jobs of a task: records and messages of a whole batch in one round trip.

Each job is what ``apply_async`` would have made of the same call: the same record, the same message, made in
one atomic script, and answered the same if the script is sent twice. A process that dies in the middle leaves
whole jobs, and none that is half there.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError, ResponseError

from denyut.errors import EnqueueErrors
from denyut.tasks.attempt import active_attempt
from denyut.tasks.bulk.batch import Batch
from denyut.tasks.bulk.template import can_have_template
from denyut.tasks.mixing import is_job
from denyut.tasks.outbox.keeper import active_keeper
from denyut.tasks.wire import Catcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from denyut.app import Denyut

__all__ = ["enqueue_many"]

#: Jobs of one round trip: a quarter of a megabyte, and about 10 ms of the server, which serves others, too.
BATCH = 250

#: What breaks off: whether the jobs without an answer were made is not known.
_BROKEN = (RedisError, OperationalError, OSError)


def enqueue_many(
    pulse: Denyut,
    task: Any,
    calls: Iterable[Any],
    *,
    on_error: str = "raise",
    batch: int = BATCH,
    **options: Any,
) -> list[Any]:
    """Enqueue many calls of one task; see ``pulse.jobs.enqueue_many``."""
    if on_error not in ("raise", "return"):
        raise ValueError(f"on_error={on_error!r}: must be 'raise' or 'return'")
    if type(batch) is not int or batch < 1:
        raise ValueError(f"batch={batch!r}: must be a whole number, 1 or more")
    with pulse.app.producer_or_acquire(None) as producer, ThreadPoolExecutor(1, "denyut-bulk") as beside:
        many = _Many(pulse, task, options, producer, beside)
        source = iter(calls)
        while some := list(islice(source, batch)):
            many.enqueue(some, more=len(some) == batch)
        many.settle()
    if on_error == "raise" and any(isinstance(found, Exception) for found in many.results):
        raise EnqueueErrors(many.results)
    return many.results


class _Many:
    """The batches of one call: while the server makes the jobs of one, the next is prepared."""

    def __init__(
        self, pulse: Denyut, task: Any, options: dict[str, Any], producer: Any, beside: Executor
    ) -> None:
        self.results: list[Any] = []
        self._pulse = pulse
        self._name = task if isinstance(task, str) else task.name
        self._task = pulse.app._tasks.get(self._name)  # noqa: SLF001 - the registry, without finalizing the app
        self._options = options
        self._producer = producer
        self._beside = beside
        self._catcher = Catcher(pulse)
        self._templates: dict[Any, Any] = {}
        self._last: Batch | None = None
        attempt = active_attempt()
        continues = attempt is not None and attempt.continuing
        plain = is_job(pulse, self._name) and can_have_template(pulse.app, self._name, self._task)
        self._alike = plain and not continues and active_keeper() is None

    def enqueue(self, calls: list[Any], *, more: bool) -> None:
        """Enqueue one batch, in order; with ``more`` to come its answers are waited for later."""
        batch = Batch(
            self._pulse, self._name, self._task, self._options, self._producer, self._catcher, self._templates
        )
        for call in calls:
            try:
                self._one(batch, call)
            except _BROKEN as exc:
                batch.found.append(exc)
                self._break(batch, exc)
        self.settle()
        self._last = batch
        batch.start(self._beside.submit if more else _at_once)

    def settle(self) -> None:
        """Wait for the answers of the last batch."""
        batch, self._last = self._last, None
        if batch is None:
            return
        try:
            batch.settle()
        except _BROKEN as exc:
            self._break(batch, exc)
        self.results += batch.found

    def _one(self, batch: Batch, call: Any) -> None:
        """Put one call into the batch, or enqueue it by itself if it is of its own kind."""
        try:
            args, kwargs, own = _parts(call)
            if self._alike and batch.add(args, kwargs, own):
                return
            self.settle()  # in order
            batch.start(_at_once)
            batch.settle()
            batch.found.append(batch.send(args, kwargs, own))
        except ResponseError as exc:  # Redis has answered: it is this call that is wrong
            batch.found.append(exc)
        except _BROKEN:
            raise
        except Exception as exc:  # noqa: BLE001 - it is told, with the index of its call
            batch.found.append(exc)

    def _break(self, batch: Batch, exc: Exception) -> NoReturn:
        self.results += [exc if found is None else found for found in batch.found]
        raise EnqueueErrors(self.results) from exc


def _at_once(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Do what an executor would do, here and now."""
    done: Future[Any] = Future()
    done.set_result(work(*args, **kwargs))
    return done


def _parts(call: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return the arguments and options of one call. Raises TypeError if it is none."""
    if not isinstance(call, tuple | list) or not 1 <= len(call) <= 3:  # noqa: PLR2004
        raise TypeError(f"a call is (args,), (args, kwargs) or (args, kwargs, options), got {call!r}")
    args, kwargs, options = [*call, None, None][:3]
    for what, value, kinds in (
        ("args", args, tuple | list),
        ("kwargs", kwargs, Mapping),
        ("options", options, Mapping),
    ):
        if value is not None and not isinstance(value, kinds):
            wanted = "a tuple or list" if what == "args" else "a mapping"
            raise TypeError(
                f"the {what} of a call must be {wanted}, got {value!r}: a call is (args, kwargs, options)"
            )
    return args or (), kwargs or {}, dict(options or {})
