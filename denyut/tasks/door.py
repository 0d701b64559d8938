"""The one door: every enqueue of a job passes here, however it was asked for.

``delay``, ``apply_async``, ``send_task``, canvas, callbacks, beat, ``retry`` and ``replace`` all end
in ``app.send_task``, which publishes through a producer. The door puts its own producer in between:
it sees the message exactly as it would be published, makes the record in one script, and publishes
only what is new.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from redis.exceptions import RedisError

from denyut.errors import IdempotencyConflict, JobCancelled, LeaseLost, NotKeepable
from denyut.scripts import Script
from denyut.states import TERMINAL, State
from denyut.tasks.attempt import active_attempt
from denyut.tasks.bulk.template import Prototype
from denyut.tasks.claim import us
from denyut.tasks.contest import MOST_STEPS, Taken, next_step, supersede
from denyut.tasks.envelope import ETA_HEADER, HEADER, Envelope, Stamp, pack
from denyut.tasks.fingerprint import fingerprint
from denyut.tasks.finish import Outcome, requeue, traceback_of
from denyut.tasks.intent import Intent, intent_of
from denyut.tasks.key import draw_id
from denyut.tasks.keying import (
    KEY_HEADER,
    close_foreign_key,
    hold_key,
    release_key,
    stand_back,
)
from denyut.tasks.mixing import is_job
from denyut.tasks.note import note_duplicate
from denyut.tasks.outbox.keeper import Keeper, active_keeper
from denyut.tasks.same_ids import install_same_ids
from denyut.tasks.size import check_size
from denyut.tasks.times import delay_of, eta_text
from denyut.tasks.unique import OPTIONS
from denyut.tasks.wire import Catcher, Wire

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["install_door"]

logger = logging.getLogger(__name__)

RESERVE = Script("denyut.tasks", "reserve")
UNRESERVE = Script("denyut.tasks", "unreserve")


class _Answered(BaseException):
    """The job exists: no error, so nobody on the way out may take it for one, and try again or log it."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id


def install_door(pulse: Denyut) -> None:
    """Replace ``app.send_task`` by the door."""
    install_same_ids()
    pulse.app.send_task = Door(pulse, pulse.app.send_task)


class Door:
    """``app.send_task`` for jobs. The result's ``deduplicated`` says whether the job existed before."""

    def __init__(self, pulse: Denyut, send: Any) -> None:
        self.pulse = pulse
        self.send = send
        self._catcher = Catcher(pulse)

    def __call__(
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: float | None = None,
        eta: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        connection: Any = None,
        **options: Any,
    ) -> Any:
        """Send one task. Arguments as ``Celery.send_task``, ``idempotency_key``, and those of ``unique.py``.

        Raises:
            InvalidKey, InvalidUniqueness, MessageTooLarge, Unfingerprintable: nothing was sent.
            IdempotencyConflict: the key belongs to a job with other arguments; nothing was sent.
            JobExists: the key belongs to a job, and ``on_conflict`` is ``raise``; nothing was sent.
        """
        app = self.pulse.app
        is_plain = not is_job(self.pulse, name) and not any(
            each in options for each in (KEY_HEADER, *OPTIONS)
        )
        if is_plain or type(producer) is Prototype:
            given = {"countdown": countdown, "eta": eta, "task_id": task_id, "producer": producer}
            return self._pass(name, args, kwargs, connection=connection, **given, **options)
        keeper = active_keeper()
        intent = intent_of(
            self.pulse, name, args or (), kwargs or {}, task_id, delay_of(app, countdown, eta), options
        )
        extra = {KEY_HEADER: intent.key, **intent.unique.headers} if intent.key is not None else {}
        if intent.delay > 0:
            extra[ETA_HEADER] = eta_text(app, countdown, eta, intent.delay)
        if extra:
            options["headers"] = {**(options.get("headers") or {}), **extra}
        sender = nullcontext(app.amqp.Producer(connection, auto_declare=False)) if connection else None
        with sender or app.producer_or_acquire(keeper or producer) as real:
            for _ in range(MOST_STEPS):
                door = _DoorProducer(self.pulse, real, intent, self._catcher)
                try:
                    result = self.send(name, args, kwargs, task_id=intent.id, producer=door, **options)
                    break
                except _Answered as answered:
                    return self._existing(answered.job_id, intent, options)
                except Taken as taken:
                    step = self._go_on(intent, taken, options)
                    if step is None:
                        return self._existing(taken.detail, intent, options)
                    intent = step
            else:
                raise IdempotencyConflict(intent.key or "", name, "(it changes hands too fast)")
        result.deduplicated = intent.step.kind == "supersede"
        if self.pulse.keys.stored and keeper is None:
            self.pulse.saving.wrote(intent.id)
        return result

    def _pass(self, name: str, args: Any, kwargs: Any, **options: Any) -> Any:
        """Send what is no job, or is only looked at."""
        if active_keeper() is not None and type(options["producer"]) is not Prototype:
            raise NotKeepable(f"task {name!r} is no job of this app, so no outbox can keep it")
        return self.send(name, args, kwargs, **options)

    def _go_on(self, intent: Intent, taken: Taken, options: dict[str, Any]) -> Intent | None:
        """Return the next try of an enqueue whose key is ``taken``; None: its answer is that job."""
        assert intent.key is not None
        assert intent.digest is not None
        step = next_step(
            self.pulse,
            intent.step,
            taken,
            task=intent.task,
            key=intent.key,
            digest=intent.digest,
            policy=intent.unique,
        )
        if step is None:
            return None
        if intent.step.kind != "supersede":  # else the id is of a job that others may wait for
            self._forget(intent.id, options)
        job_id = step.holder if step.kind == "supersede" else draw_id(self.pulse.keys, intent.digest)
        return replace(intent, id=job_id, step=step, token=uuid4().hex)

    def _existing(self, job_id: str, intent: Intent, options: dict[str, Any]) -> Any:
        app = self.pulse.app
        if job_id != intent.id:
            self._forget(intent.id, options)
        result = (options.get("result_cls") or app.AsyncResult)(job_id)
        result.ignored = options.get("ignore_result")
        result.deduplicated = True
        parent = app.current_worker_task
        if parent and options.get("add_to_parent", True):
            parent.add_trail(result)
        return result

    def _forget(self, job_id: str, options: dict[str, Any]) -> None:
        """Wait no more for the result of an id that was drawn, and will never be published."""
        consumer = getattr(self.pulse.app.backend, "result_consumer", None)
        if consumer is not None and not options.get("ignore_result"):
            consumer.cancel_for(job_id)


class _DoorProducer:
    """A producer that makes the job's record before it publishes the job's message."""

    def __init__(self, pulse: Denyut, real: Any, intent: Intent, catcher: Catcher) -> None:
        self._pulse = pulse
        self._real = real
        self._intent = intent
        self._catcher = catcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def publish(self, body: Any, **options: Any) -> Any:
        """Publish ``body``; the job's own message only if the record says that it is new."""
        headers = options.get("headers") or {}
        if headers.get("id") != self._intent.id or "task" not in headers:
            return self._real.publish(body, **options)  # an event about the task, say
        if isinstance(self._real, Keeper):
            return self._keep(body, options)
        new_for_now = self._intent.attempt is None and self._intent.delay <= 0
        if new_for_now and self._catcher.can_catch(self._real):  # one for later needs no broker yet
            headers[HEADER] = self._intent.token  # the script puts the stamp there
            wire = self._catcher.catch(self._real, body, options)
            if wire is not None:
                return self._reserve_and_push(wire, headers)
            del headers[HEADER]
        return self._reserve_then_publish(body, options)

    def _keep(self, body: Any, options: dict[str, Any]) -> None:
        """Check what making the record would have checked, and let the message be kept."""
        envelope = pack(self._real, body, options)
        check_size(self._pulse, self._intent.task, envelope.body)
        if self._intent.digest is not None:
            args, kwargs, _ = envelope.decode(self._pulse.app.conf.accept_content)
            fingerprint(args, kwargs)
        self._real.keep(self._intent, envelope)

    def _reserve_and_push(self, wire: Wire, headers: dict[str, Any]) -> None:
        """Make the record and push the message, in one script."""
        stamp = self._reserve(wire.envelope, wire)
        if stamp is not None:
            headers[HEADER] = asdict(stamp)

    def _reserve_then_publish(self, body: Any, options: dict[str, Any]) -> Any:
        envelope, headers = pack(self._real, body, options), options["headers"]
        stamp = self._reserve(envelope, None)
        if stamp is None:
            return None  # it waits in the store until it is due
        headers[HEADER] = asdict(stamp)
        options |= {"content_type": envelope.content_type, "content_encoding": envelope.content_encoding}
        # pack() has encoded and compressed the body, and said so in the headers: not a second time.
        options |= {"serializer": None, "compression": ""}
        try:
            return self._real.publish(envelope.body, **options)
        except BaseException as exc:
            if (
                self._intent.step.kind == "supersede"
            ):  # it is another caller's job, too, and its record has all
                logger.warning("job %s: recovery publishes its newer message: %r", self._intent.id, exc)
                return None
            self._unreserve()
            raise

    def _reserve(self, envelope: Envelope, wire: Wire | None) -> Stamp | None:
        intent = self._intent
        check_size(self._pulse, intent.task, envelope.body)
        reply = self._requeue(envelope) if intent.attempt else self._first(envelope, wire)
        code = reply[0].decode()
        if code in ("DUPLICATE", "CONFLICT") and self._is_left_over(reply[1].decode()):
            reply = self._first(envelope, wire)
            code = reply[0].decode()
        self._contest(code, reply, envelope)
        if code in ("DUPLICATE", "CONFLICT"):
            note_duplicate(self._pulse, reply[1].decode(), code, intent.key, envelope)
        if code == "EXISTS":
            self._give_back(reply[1].decode())
        if code in ("DUPLICATE", "EXISTS"):
            raise _Answered(reply[1].decode() if code == "DUPLICATE" else intent.id)
        if code == "CONFLICT":
            raise IdempotencyConflict(intent.key or "", intent.task, reply[1].decode())
        if code == "LOST":
            raise LeaseLost(f"job {intent.id} belongs to another attempt; its {intent.what} was not sent")
        if code == "CANCELLED":
            raise JobCancelled(f"job {intent.id} was cancelled; its {intent.what} was not sent")
        if code == "SCHEDULED":
            return None
        return Stamp(gen=int(reply[3]), marker=reply[1].decode(), at=int(reply[2]))

    def _contest(self, code: str, reply: list[Any], envelope: Envelope) -> None:
        """Leave it to the policy of the key what is done next, where that is not the plain one."""
        intent = self._intent
        contested = code in ("DUPLICATE", "CONFLICT") and intent.unique.on_conflict != "return"
        if code == "SAME":
            raise _Answered(intent.id)
        if not contested and code not in ("NEXT", "STARTED", "FREE"):
            return
        detail = intent.id if code in ("STARTED", "FREE") else reply[1].decode()
        if intent.unique.on_conflict == "raise":
            note_duplicate(self._pulse, detail, "refused", intent.key, envelope)
        raise Taken(code, detail, same=code == "STARTED" and reply[2] == b"1")

    def _give_back(self, state: str) -> None:
        """Release the key that was held again for a job that has ended meanwhile."""
        intent = self._intent
        if intent.digest is None or State(state) not in TERMINAL:
            return
        if _has_failed(state):
            release_key(self._pulse, intent.id, intent.digest, "failed")
        elif intent.unique.until:
            release_key(self._pulse, intent.id, intent.digest, "completed")

    def _is_left_over(self, holder: str) -> bool:
        """Free the key if ``holder``, a job of another partition, can no longer answer for it."""
        pulse, digest = self._pulse, self._intent.digest
        if digest is None or pulse.keys.partition_of(holder) == pulse.keys.partition_of(digest):
            return False
        state = pulse.store.client.hget(pulse.keys.job(holder).record, "state")
        if state is not None and not _has_failed(state.decode()):
            return False
        close_foreign_key(pulse, holder, digest)
        return True

    def _first(self, envelope: Envelope, wire: Wire | None) -> list[Any]:
        intent, pulse = self._intent, self._pulse
        fp, follows, conflict = "", intent.step.holder, ""
        more, mode = (
            ["origin", envelope.headers.get("origin") or "", *intent.unique.fields, *intent.step.fields],
            "0",
        )
        if intent.digest is not None:
            args, kwargs, _ = envelope.decode(pulse.app.conf.accept_content)
            fp = fingerprint(args, kwargs)
            if intent.step.kind == "supersede":
                return self._supersede(envelope, wire, fp)
            mode = intent.step.mode
            if intent.frozen:
                answer, holder = hold_key(pulse, intent.id, intent.digest, fp, policy=intent.unique)
                follows, conflict, waits = stand_back(answer, holder, intent.unique)
                if conflict and intent.unique.on_conflict == "raise" and not (intent.by or intent.kept):
                    return [b"DUPLICATE", conflict.encode()]
                more, mode = [*more, *waits, "given", "1"], "0"
        args_: list[Any] = [intent.id, intent.task, envelope.queue, intent.key or "", intent.digest or "", fp]
        args_ += [intent.token, wire.payload if wire else envelope.dump(), us(max(intent.delay, 0.0))]
        args_ += [follows, conflict, intent.retention, mode]
        lists = wire.lists if wire else []
        left = "" if intent.expires is None else us(intent.expires)
        its_record = [pulse.keys.job(intent.step.holder).record] if mode == "2" else []
        keys = [*pulse.keys.script(intent.id, intent.digest), *its_record, *lists]
        args_ += [len(lists), intent.by, left, *more]
        return list(RESERVE(pulse.store.client, keys, args_))

    def _supersede(self, envelope: Envelope, wire: Wire | None, fp: str) -> list[Any]:
        intent = self._intent
        assert intent.digest is not None
        return supersede(
            self._pulse,
            intent.id,
            envelope,
            wire,
            task=intent.task,
            digest=intent.digest,
            fp=fp,
            token=intent.token,
            delay=intent.delay,
            expires=intent.expires,
            policy=intent.unique,
        )

    def _requeue(self, envelope: Envelope) -> list[Any]:
        intent = self._intent
        attempt = intent.attempt
        assert attempt is not None
        cause = attempt.cause
        why = Outcome.of_error(State.RETRYING, cause, traceback=traceback_of(cause)) if cause else None
        try:
            reply = attempt.guarded(
                lambda: requeue(
                    self._pulse,
                    intent.id,
                    attempt.claim.fence,
                    intent.what,
                    message=envelope.dump(),
                    delay=intent.delay,
                    expires=intent.expires,
                    task=intent.task,
                    queue=envelope.queue,
                    token=intent.token,
                    error=why.error if why else "",
                    traceback=why.traceback if why else "",
                ),
                refused=[b"LOST"],
            )
        except RedisError as exc:
            attempt.broken = exc
            raise
        attempt.moved = reply[0] not in (b"LOST", b"CANCELLED")
        return reply

    def _unreserve(self) -> None:
        intent, pulse = self._intent, self._pulse
        sender = active_attempt()
        if sender is not None and sender.continuing:
            return  # Celery tries again, and so does a replay; and recovery has the message
        if intent.kept:
            return
        if intent.attempt is None:  # a retry that could not be published stays queued: recovery has it
            keys = pulse.keys.script(intent.id, intent.digest)
            UNRESERVE(pulse.store.client, keys, [intent.id, intent.token, us(intent.retention)])
            close_foreign_key(pulse, intent.id, intent.digest)


def _has_failed(state: str) -> bool:
    """Whether a job in ``state`` has ended in a way that frees its key."""
    return State(state) in TERMINAL - {State.COMPLETED}
