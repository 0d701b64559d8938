"""From a call, or a message, to its idempotency key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.tasks.claim import Key
from denyut.tasks.fingerprint import fingerprint
from denyut.tasks.key import check_key, digest_of, from_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from denyut.app import Denyut

__all__ = ["KEY_HEADER", "close_foreign_key", "free_key", "hold_key", "key_of_call", "key_of_message"]

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
        InvalidKey, Unfingerprintable: as at the door.
    """
    given = request.get(KEY_HEADER)
    args, kwargs = request.get("args") or (), request.get("kwargs") or {}
    if given is None:
        return Key()
    key = check_key(given)
    digest, fp = digest_of(task.name, key), fingerprint(args, kwargs)
    answer, holder = hold_key(pulse, job_id, digest, fp)
    return Key(
        key=key,
        digest=digest,
        fingerprint=fp,
        follows=holder if answer == "DUPLICATE" else "",
        conflict=holder if answer == "CONFLICT" else "",
    )


def hold_key(pulse: Denyut, job_id: str, digest: str, fp: str, *, recorded: bool = False) -> tuple[str, str]:
    """Take a key for a job whose id was given. Returns HELD, DUPLICATE or CONFLICT, and the holder.

    Until the job has a record (``recorded``), the key is held for a short time.
    """
    here = not recorded and pulse.keys.partition_of(digest) == pulse.keys.partition_of(job_id)
    ttl = _UNCONFIRMED_HOLD if here else _LONGEST_HOLD
    reply = HOLD_KEY(pulse.store.client, [pulse.keys.idempotency(digest)], [job_id, fp, ttl])
    return reply[0].decode(), reply[1].decode() if len(reply) > 1 else job_id


def free_key(pulse: Denyut, job_id: str, digest: str) -> None:
    """Free the key ``digest`` if ``job_id`` has it, wherever it lives."""
    CLOSE_KEY(pulse.store.client, [pulse.keys.idempotency(digest)], [job_id, 0])


def close_foreign_key(pulse: Denyut, job_id: str, digest: str | None, *, keep: float = 0.0) -> None:
    """Close the key of an ended job that lives in another partition than the job.

    (Where both live in one, the script that ends the job closes the key.)

    Args:
        pulse: the app's Denyut.
        job_id: the ended job.
        digest: of its key; None if it has none.
        keep: seconds for which the key still answers; 0 frees it at once.
    """
    if digest and pulse.keys.partition_of(digest) != pulse.keys.partition_of(job_id):
        CLOSE_KEY(pulse.store.client, [pulse.keys.idempotency(digest)], [job_id, round(keep * 1000)])
