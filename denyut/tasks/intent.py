"""What one enqueue is about: which job, under which key, and how it asks for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from denyut.tasks.attempt import Attempt, active_attempt
from denyut.tasks.contest import TAKE, Step
from denyut.tasks.key import check_id, digest_of, draw_id
from denyut.tasks.keying import key_of_call
from denyut.tasks.times import seconds_until
from denyut.tasks.unique import OPTIONS, PLAIN, Uniqueness, key_of_arguments, uniqueness_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut

__all__ = ["Intent", "intent_of"]


@dataclass(slots=True, kw_only=True)
class Intent:
    """What one enqueue is about."""

    id: str
    task: str
    delay: float
    #: Seconds until it is too late to run it; None: never.
    expires: float | None
    key: str | None
    digest: str | None
    #: The id was given: somebody waits for exactly this one, so it must run or follow.
    frozen: bool
    #: The attempt that gives way to its next generation (retry, replace).
    attempt: Attempt | None
    what: str
    retention: float
    token: str
    #: Whose dispatch of a frozen signature this is: the same one sends it once, another runs it again.
    by: str
    unique: Uniqueness
    #: How it asks for its key.
    step: Step = TAKE
    #: It was kept in an outbox: who sends it tries again, so it is never taken back.
    kept: bool = False


def intent_of(
    pulse: Denyut,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    task_id: str | None,
    delay: float,
    options: dict[str, Any],
) -> Intent:
    """Return what a call of ``send_task`` is about; take out of ``options`` what Celery does not know.

    Raises:
        InvalidKey, InvalidUniqueness, Unfingerprintable: as at the door.
    """
    attempt, what = active_attempt(), ""
    task = pulse.app._tasks.get(name)  # noqa: SLF001 - the registry, without finalizing the app
    known = options.get("task_type") or task
    retention = getattr(task, "retention", None) or pulse.settings.retention
    key = key_of_call(known, args, kwargs, options)
    if attempt is not None and task_id == attempt.run.id and not attempt.continuing:
        what = "retry" if (options.get("retries") or 0) > 0 and name == attempt.task.name else "replace"
    unique = _unique(known, args, kwargs, options, retention=retention, plain=bool(what))
    if key is None and unique.given:
        key = key_of_arguments(args, kwargs)
    frozen, signed = task_id is not None, task_id is not None and options.get("reply_to")
    if attempt is not None and attempt.continuing and task_id is None and (key is None or unique.until):
        # With a key that lapses before its job is forgotten, only the id says what a replay has sent already.
        task_id, frozen = attempt.child_id(), key is not None
    digest = digest_of(name, key, unique.scope) if key is not None else None
    token = uuid4().hex
    return Intent(
        id=check_id(task_id) if task_id else draw_id(pulse.keys, digest),
        task=name,
        delay=delay,
        expires=_expiry(pulse.app, delay, options.get("expires")),
        key=key,
        digest=digest,
        frozen=frozen,
        attempt=attempt if what else None,
        what=what,
        retention=retention,
        token=token,
        by=_dispatch(pulse.app, attempt, token) if signed else "",
        unique=unique,
    )


def _unique(
    task: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: dict[str, Any],
    *,
    retention: float,
    plain: bool,
) -> Uniqueness:
    """Return the policy of one call, of which ``options`` lose what is about it; a retry has its job's."""
    if plain:
        for name in OPTIONS:
            options.pop(name, None)
        return PLAIN
    return uniqueness_of(task, options, args, kwargs, retention=retention)


def _dispatch(app: Any, attempt: Attempt | None, token: str) -> str:
    """Name the dispatch of a frozen signature: of the job that sends it, else one of its own."""
    if attempt is not None:
        return f"{attempt.chord or attempt.run.id}#{attempt.claim.run}"
    task = app.current_worker_task  # chord_unlock, say
    return str(task.request.id) if task is not None and task.request.id else token


def _expiry(app: Any, delay: float, expires: Any) -> float | None:
    """Return the seconds until a job that waits in the store expires. One for now is left to Celery."""
    if delay <= 0 or expires is None:
        return None
    return seconds_until(app, expires, "expires")
