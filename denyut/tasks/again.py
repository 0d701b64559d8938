"""Retrying an ended job by hand: a new job with the same message and fresh budgets.

The old job names the new one before that is made, and notes it once it is: whoever dies in between, or
retries at the same moment, leads to one new job. The two may live in different partitions, so no one
script could do it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from celery.utils.nodenames import anon_nodename
from kombu.exceptions import KombuError
from kombu.serialization import dumps, registry

from denyut.errors import AlreadyRetried, NotRetryable
from denyut.scripts import Script
from denyut.tasks.claim import us
from denyut.tasks.door import RESERVE, UNRESERVE
from denyut.tasks.envelope import ETA_HEADER, Envelope, Stamp
from denyut.tasks.key import check_id, draw_id
from denyut.tasks.missing import no_such_job

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["retry_job"]

AGAIN = Script("denyut.tasks", "again")
RETRIED = Script("denyut.tasks", "retried")


@dataclass(frozen=True, slots=True)
class _Old:
    """What the new job is made of."""

    message: bytes
    task: str
    queue: str
    key: str
    digest: str
    fingerprint: str
    retention: str
    checkpoint: str
    until: str
    period: str


def retry_job(pulse: Denyut, job_id: str, *, from_checkpoint: bool = False, force: bool = False) -> str:
    """Make a new job of the ended job ``job_id`` and return its id.

    It has the message of the old one: arguments, queue, priority, links and the rest of its chain. It
    runs now, whatever ETA or ``expires`` the old one had, and with fresh budgets. It takes no part in
    the old one's group or chord, which has been told that its member failed. A dead letter leaves the
    list.

    Args:
        pulse: the app's Denyut.
        job_id: a job that has ended, and whose message is still kept.
        from_checkpoint: begin at the last checkpoint of the old job; else from the start.
        force: also if it has been retried already.

    Raises:
        UnknownJob: there is no record of it.
        AlreadyRetried: naming the job that it became.
        NotRetryable: it has not ended, its message is not kept (or cannot be read here), or its
            idempotency key belongs to another job by now.
        kombu.exceptions.OperationalError: it could not be published; nothing was retried.
    """
    new_id, old = _begin(pulse, check_id(job_id), force=force)
    made = False
    try:
        envelope = _fresh(pulse.app, old.message, job_id, new_id)
        _make(pulse, job_id, new_id, old, envelope, from_checkpoint=from_checkpoint)
        made = True
    except AlreadyRetried:
        made = True
        raise
    finally:
        _end(pulse, job_id, new_id, made=made)
    return new_id


def _begin(pulse: Denyut, job_id: str, *, force: bool) -> tuple[str, _Old]:
    client, record = pulse.store.client, pulse.keys.job(job_id).record
    digest = client.hget(record, "digest")
    proposed = draw_id(pulse.keys, digest.decode() if digest else None)
    keys = pulse.keys.script(job_id)
    code, *rest = AGAIN(client, keys, [job_id, proposed, "1" if force else "0"])
    if code != b"GO":
        _refuse(pulse, job_id, code.decode(), rest[0].decode() if rest else "")
    new_id, message, *texts = rest
    return new_id.decode(), _Old(message, *(text.decode() for text in texts))


def _refuse(pulse: Denyut, job_id: str, code: str, detail: str) -> NoReturn:
    if code == "UNKNOWN":
        raise no_such_job(pulse, job_id, "nothing was retried")
    if code == "ALREADY":
        raise AlreadyRetried(job_id, detail)
    if code == "LIVE":
        raise NotRetryable(f"job {job_id!r} is {detail.lower()}: only a job that has ended can be retried")
    if code == "UNSETTLED":
        raise NotRetryable(
            f"job {job_id!r} has just ended ({detail.lower()}) and Celery is being told: try again soon"
        )
    why = (
        "of a completed job no message is kept"
        if detail == "COMPLETED"
        else "its message is not kept any more"
    )
    raise NotRetryable(f"job {job_id!r} ended as {detail.lower()}, and {why}: enqueue the task again")


def _fresh(app: Any, message: bytes, old_id: str, new_id: str) -> Envelope:
    """Return the message of the new job. Raises NotRetryable if the old one's cannot be read."""
    try:
        return _renamed(app, Envelope.load(message), old_id, new_id)
    except (KombuError, ValueError, KeyError, TypeError) as exc:
        raise NotRetryable(f"job {old_id!r}: its message cannot be read here: {exc}") from exc


def _renamed(app: Any, envelope: Envelope, old_id: str, new_id: str) -> Envelope:
    headers = dict(envelope.headers)
    in_group = headers.get("group") is not None
    headers |= {"id": new_id, "retries": 0, "eta": None, "expires": None, "group": None, "group_index": None}
    headers["origin"] = anon_nodename()
    headers.pop(ETA_HEADER, None)
    if headers.get("root_id") in (None, old_id):
        headers["root_id"] = new_id
    envelope = replace(
        envelope, headers=headers, properties={**envelope.properties, "correlation_id": new_id}
    )
    return _without_chord(app, envelope) if in_group else envelope


def _without_chord(app: Any, envelope: Envelope) -> Envelope:
    args, kwargs, embed = envelope.decode(app.conf.accept_content)
    if not (embed or {}).get("chord"):
        return envelope
    serializer = registry.type_to_name[envelope.content_type]
    content_type, encoding, body = dumps((args, kwargs, {**embed, "chord": None}), serializer)
    headers = {name: value for name, value in envelope.headers.items() if name != "compression"}
    return replace(envelope, body=body, content_type=content_type, content_encoding=encoding, headers=headers)


def _make(
    pulse: Denyut, old_id: str, new_id: str, old: _Old, envelope: Envelope, *, from_checkpoint: bool
) -> None:
    client, token = pulse.store.client, uuid4().hex
    retention = float(old.retention or pulse.settings.retention)
    keys = pulse.keys.script(new_id, old.digest or None)
    args = [new_id, old.task, old.queue, old.key, old.digest, old.fingerprint, token, envelope.dump(), 0]
    args += ["", "", retention, "1" if old.digest else "0", 0, "", ""]
    args += ["origin", envelope.headers["origin"], "retry_of", old_id]
    kept = {"until": old.until, "unique_us": old.period}
    args += [part for pair in kept.items() if pair[1] for part in pair]
    if from_checkpoint and old.checkpoint:
        args += ["checkpoint", old.checkpoint]
    code, *rest = RESERVE(client, keys, args)
    if code == b"EXISTS":
        raise AlreadyRetried(old_id, new_id)
    if code != b"RESERVED":
        raise NotRetryable(
            f"job {old_id!r}: its idempotency key {old.key!r} belongs to job {rest[0].decode()} by now, "
            "which stands for the same request"
        )
    marker, at, gen = rest
    try:
        envelope.publish(pulse.app, Stamp(gen=int(gen), marker=marker.decode(), at=int(at)))
    except BaseException:
        UNRESERVE(client, keys, [new_id, token, us(retention)])
        raise


def _end(pulse: Denyut, job_id: str, new_id: str, *, made: bool) -> None:
    args = [job_id, new_id, "1" if made else "0", anon_nodename(), os.getpid()]
    args += [round(pulse.settings.dead_retention * 1000)]
    RETRIED(pulse.store.client, pulse.keys.script(job_id), args)
