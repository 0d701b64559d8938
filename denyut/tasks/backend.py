"""The result backend of an app whose tasks are jobs: what it stores, and sends, is tied to the attempt.

A result that has nothing after it (no callback, chain or chord) is stored by the script that ends the
job, if Celery's results are in the Redis that has the records: they end together, in one round trip.
Readers see what Celery would have stored. Elsewhere Celery stores it, before the job is settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from celery.backends.redis import RedisBackend
from celery.states import SUCCESS

from denyut.tasks.attempt import active_attempt
from denyut.tasks.claim import Code
from denyut.tasks.continuation import JobContinuation
from denyut.tasks.mixing import is_job
from denyut.tasks.outbox.keeper import active_keeper
from denyut.tasks.wire import address

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["StoredResult", "mix_into_backend", "prepare_result"]

#: Larger results are left to Celery: in one script with the record they would be sent twice (bytes).
_LARGEST = 256 * 1024

#: Bodies that are made of others.
_CANVAS = ("celery.chain", "celery.group", "celery.chord")


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What Celery's Redis backend would store: the key, the text, and for how many seconds (0: for ever)."""

    key: bytes
    text: str
    expires: int


class JobResults(JobContinuation):
    """Mixed into the class of the app's result backend."""

    def store_result(self, task_id: str, result: Any, state: str, *args: Any, **kwargs: Any) -> Any:
        """Store a result, unless the script that ended the job has stored it."""
        attempt = active_attempt()
        if attempt is not None and attempt.stored and state == SUCCESS and task_id == attempt.run.id:
            return result
        return super().store_result(task_id, result, state, *args, **kwargs)

    def on_task_call(self, producer: Any, task_id: str) -> Any:
        """Listen for the result of a task that is sent; one that is kept needs no connection."""
        base: Any = super()
        return None if active_keeper() is not None else base.on_task_call(producer, task_id)

    def on_chord_part_return(self, request: Any, state: str, result: Any, **kwargs: Any) -> Any:
        """Take part in a chord. Its body is sent by the chord, whichever member comes last."""
        attempt = active_attempt()
        if attempt is None:
            return super().on_chord_part_return(request, state, result, **kwargs)
        if attempt.claim.code == Code.REPLAY:
            _take_chord_over(attempt.pulse, self, request)
            _take_part_back(self, request, state, result)
        attempt.chord = request.group
        try:
            return super().on_chord_part_return(request, state, result, **kwargs)
        finally:
            attempt.chord = None

    def __reduce__(self, *args: Any, **kwargs: Any) -> Any:
        """Pickle as the backend it is: where it is unpickled, the app there mixes this in, or has no jobs."""
        base: Any = super()
        make, (_, *rest) = base.__reduce__(*args, **kwargs)
        return make, (type(self).__bases__[-1], *rest)


def _take_chord_over(pulse: Denyut, backend: Any, request: Any) -> None:
    """Let a replay send the body of a chord though somebody has claimed to.

    From Celery 5.7 on one member claims the sending, for seconds or more. If that was an earlier attempt
    of this very job, which died, nobody else would send it. If it was another that lives, the body is
    sent twice; its id is fixed, so that its record takes one. Only for a body that has one.
    """
    body = request.chord
    name = str(body.get("task")) if body else ""
    if not name or not isinstance(backend, RedisBackend) or not (is_job(pulse, name) or name in _CANVAS):
        return
    claim = backend.get_key_for_group(request.group, ".c")
    if backend.client.get(claim) != b"done":
        backend.client.delete(claim)


def _take_part_back(backend: Any, request: Any, state: str, result: Any) -> None:
    """Let a replay's part of a chord be counted once, where Celery counts what it pushes.

    Celery before 5.7 with ``result_chord_ordered`` off does that; else a part that is there already is one.
    """
    if hasattr(backend, "_chord_part_return_script") or getattr(backend, "_chord_zset", True):
        return
    part = backend.encode([1, request.id, state, backend.encode_result(result, state)])
    backend.client.lrem(backend.get_key_for_group(request.group, ".j"), 0, part)


def mix_into_backend(pulse: Denyut) -> None:
    """Make the result backends of the app, those there are and those to come, know of jobs."""
    app = pulse.app
    make = app._get_backend  # noqa: SLF001 - where the app makes one for each thread that needs its own

    def get_backend() -> Any:
        return _convert(make())

    app._get_backend = get_backend  # noqa: SLF001
    if app._backend is not None:  # noqa: SLF001
        _convert(app._backend)  # noqa: SLF001


def prepare_result(pulse: Denyut, task: Any, job_id: str, value: Any) -> StoredResult | None:
    """Return the result ``value`` as Celery would store it; None if only Celery itself can.

    Raises:
        kombu.exceptions.EncodeError: if it cannot be encoded.
    """
    backend = task.backend
    if not _is_here(pulse, backend):
        return None
    encoded = backend.encode_result(value, SUCCESS)
    meta = backend._get_result_meta(result=encoded, state=SUCCESS, traceback=None, request=task.request)  # noqa: SLF001
    meta["task_id"] = job_id
    text = backend.encode(meta)
    if not isinstance(text, str) or len(text) > _LARGEST:
        return None
    return StoredResult(backend.get_key_for_task(job_id), text, int(backend.expires or 0))


def _is_here(pulse: Denyut, backend: Any) -> bool:
    """Whether ``backend`` is Celery's Redis backend at the Redis that has the records."""
    known = backend.__dict__.get("_denyut_here")
    if known is None:
        kind: Any = type(backend)
        mixed = kind is _mixed(RedisBackend)
        # With JSON the script can see whether a success is there already.
        known = mixed and backend.serializer == "json" and _same_server(pulse, backend)
        backend._denyut_here = known  # noqa: SLF001
    return bool(known)


def _same_server(pulse: Denyut, backend: Any) -> bool:
    here = address(pulse.store.client.connection_pool.connection_kwargs)
    return address(backend.connparams) == here


def _convert(backend: Any) -> Any:
    kind: Any = type(backend)
    backend.__class__ = _mixed(kind)
    return backend


@cache
def _mixed(base: Any) -> Any:
    if issubclass(base, JobResults):
        return base
    return type(base.__name__, (JobResults, base), {"__module__": base.__module__})
