"""From a call, or a message, to its idempotency key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.tasks.claim import Key
from denyut.tasks.fingerprint import fingerprint
from denyut.tasks.key import check_key, digest_of, from_template
from denyut.tasks.unique import OPTIONS, PLAIN, Uniqueness, key_of_arguments, uniqueness_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut

__all__ = [
    "KEY_HEADER",
    "close_foreign_key",
    "hold_key",
    "key_of_call",
    "key_of_message",
    "release_key",
    "stand_back",
]

HOLD_KEY = Script("denyut.tasks", "hold_key")
CLOSE_KEY = Script("denyut.tasks", "close_key")

#: The message header that carries the idempotency key; any Celery client may set it.
KEY_HEADER = "idempotency_key"

#: A key held from another partition is freed by its job's end; this is for a job that never ends (ms).
_LONGEST_HOLD = 30 * 24 * 3600 * 1000
#: A key in the job's own partition is the job's for good as soon as it has a record; until then a
#: process that dies between the two steps must not keep the key (ms).
_UNCONFIRMED_HOLD = 60_000


def key_of_call(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: dict[str, Any]
) -> str | None:
    """Return the key of one call: its argument, its header, or the task's template, in this order.

    Takes ``idempotency_key`` out of ``options``.

    Raises:
        InvalidKey: if the key is not valid.
    """
    given = options.pop(KEY_HEADER, None)
    if given is None:
        given = (options.get("headers") or {}).get(KEY_HEADER)
    if given is not None:
        return check_key(given)
    template = getattr(task, KEY_HEADER, None)
    if template is None:
        return None
    return from_template(template, task.run, args, kwargs)


def key_of_message(pulse: Denyut, task: Any, job_id: str, request: Mapping[str, Any]) -> Key:
    """Return the key of a plain client's message, held for ``job_id`` if it was free.

    Raises:
        InvalidKey, InvalidUniqueness, Unfingerprintable: as at the door.
    """
    args, kwargs = request.get("args") or (), request.get("kwargs") or {}
    key = request.get(KEY_HEADER)
    if key is None and all(request.get(name) is None for name in OPTIONS):
        return Key()
    retention = task.retention or pulse.settings.retention
    policy = uniqueness_of(task, {"headers": request}, args, kwargs, retention=retention)
    key = key_of_arguments(args, kwargs) if key is None else check_key(key)
    digest, fp = digest_of(task.name, key, policy.scope), fingerprint(args, kwargs)
    answer, holder = hold_key(pulse, job_id, digest, fp, policy=policy)
    follows, conflict, waits = stand_back(answer, holder, policy)
    return Key(
        key=key,
        digest=digest,
        fingerprint=fp,
        follows=follows,
        conflict=conflict,
        fields=(*policy.fields, *waits),
    )


def stand_back(answer: str, holder: str, policy: Uniqueness) -> tuple[str, str, list[str]]:
    """Return what a job does whose id was given, and whose key ``hold_key`` found with ``holder``.

    Somebody waits for this very id, so it is not merged into another job, whatever its policy: it takes
    over the other's end, fails, or runs itself once the other has ended.

    Returns:
        the job that it follows, the one that it conflicts with (empty: none), further fields of its record.
    """
    if answer == "HELD":
        return "", "", []
    if policy.on_conflict in ("replace", "run_again"):
        return holder, "", ["after", "look"]
    if policy.on_conflict == "raise" or answer == "CONFLICT":
        return "", holder, []
    return holder, "", []


def hold_key(
    pulse: Denyut,
    job_id: str,
    digest: str,
    fp: str,
    *,
    recorded: bool = False,
    policy: Uniqueness = PLAIN,
) -> tuple[str, str]:
    """Take a key for a job whose id was given. Returns HELD, DUPLICATE or CONFLICT, and the holder.

    Until the job has a record (``recorded``), the key is held for a short time.
    """
    here = not recorded and pulse.keys.partition_of(digest) == pulse.keys.partition_of(job_id)
    ttl = _UNCONFIRMED_HOLD if here else _LONGEST_HOLD
    args = [job_id, fp, ttl, policy.until, policy.period_us]
    reply = HOLD_KEY(pulse.store.client, [pulse.keys.idempotency(digest)], args)
    return reply[0].decode(), reply[1].decode() if len(reply) > 1 else job_id


def release_key(pulse: Denyut, job_id: str, digest: str, step: str, *, answers: float = 0.0) -> None:
    """Release the key ``digest``, wherever it lives, if ``job_id`` has it.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        digest: of its key.
        step: what has become of the job: ``start``, ``completed`` or ``failed`` (which frees it at once).
        answers: seconds for which a completed job answers for a key without a policy.
    """
    keys = [pulse.keys.idempotency(digest), pulse.keys.partition(pulse.keys.partition_of(digest)).schedule]
    CLOSE_KEY(pulse.store.client, keys, [job_id, step, round(answers * 1_000_000)])


def close_foreign_key(pulse: Denyut, job_id: str, digest: str | None, *, keep: float = 0.0) -> None:
    """Close the key of an ended job that lives in another partition than the job.

    (Where both live in one, the script that ends the job closes the key.)

    Args:
        pulse: the app's Denyut.
        job_id: the ended job.
        digest: of its key; None if it has none.
        keep: seconds for which the completed job answers; 0: it has failed, and its key is free at once.
    """
    if digest and pulse.keys.partition_of(digest) != pulse.keys.partition_of(job_id):
        release_key(pulse, job_id, digest, "completed" if keep else "failed", answers=keep)
