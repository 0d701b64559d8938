"""A batch of calls on its way: prepared one by one, reserved and pushed in one round trip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from denyut.errors import IdempotencyConflict, JobExists
from denyut.scripts import run_all
from denyut.tasks.bulk.template import ETA_GAP, KEY_GAP, Template, make_template
from denyut.tasks.claim import us
from denyut.tasks.door import RESERVE, UNRESERVE
from denyut.tasks.envelope import ETA_HEADER, Envelope, Stamp
from denyut.tasks.fingerprint import fingerprint
from denyut.tasks.intent import Intent, intent_of
from denyut.tasks.keying import KEY_HEADER
from denyut.tasks.note import duplicate_note
from denyut.tasks.publish import publish_all
from denyut.tasks.size import check_size
from denyut.tasks.times import delay_of, eta_text
from denyut.tasks.unique import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from denyut.app import Denyut
    from denyut.scripts import Call
    from denyut.tasks.wire import Catcher

__all__ = ["Batch"]

#: Options that say of a call what no template has.
_OWN_WAY = frozenset({"task_id", "producer", "publisher", "connection", "group_id", "chord", "chain"})


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One call that is ready: where its answer belongs, and the script call that makes the job."""

    place: int
    intent: Intent
    text: str
    call: Call
    template: Template
    again: partial[Any]


class Batch:
    """Calls of one task that are alike.

    Args:
        pulse: the app's Denyut.
        name: of the task.
        task: None if it is not known here.
        options: of all calls.
        producer: of the app.
        catcher: of what it publishes.
        templates: of the calls so far; those that serve other batches are kept there.

    ``found`` has the answers, one for each call: ``add`` appends None, ``settle`` puts the answer in.
    """

    def __init__(
        self,
        pulse: Denyut,
        name: str,
        task: Any,
        options: dict[str, Any],
        producer: Any,
        catcher: Catcher,
        templates: dict[Any, Template | None],
    ) -> None:
        self._pulse = pulse
        self._name = name
        self._task = task
        self._options = options
        self._defaults = dict(task._get_exec_options()) if task is not None else {}  # noqa: SLF001 - as apply_async does
        self._check = task.__header__ if task is not None and task.typing else None
        self._send = task.apply_async if task is not None else partial(pulse.app.send_task, name)
        self._producer = producer
        self._catcher = catcher
        self.found: list[Any] = []
        self._pending: list[_Prepared] = []
        self._sent: list[_Prepared] = []
        self._replies: Future[list[Any]] | None = None
        self._templates = templates
        self._passing: dict[Any, Template | None] = {}  # with a time in them

    def send(self, args: Any, kwargs: Any, own: Mapping[str, Any]) -> Any:
        """Enqueue one call by itself, as ``apply_async`` does, and return its result."""
        return self._send(args, kwargs, **{**self._options, **own})

    def add(self, args: Any, kwargs: Any, own: dict[str, Any]) -> bool:
        """Prepare one call; False if it is to go its own way.

        Raises:
            Whatever ``apply_async`` raises before it sends anything.
        """
        options = {**self._options, **own}
        if not _OWN_WAY.isdisjoint(options):
            return False
        if self._check is not None:
            self._check(*args, **kwargs)
        countdown, eta = options.pop("countdown", None), options.pop("eta", None)
        delay = delay_of(self._pulse.app, countdown, eta)
        intent = intent_of(self._pulse, self._name, args, kwargs, None, delay, {**self._defaults, **options})
        if intent.unique.on_conflict in ("replace", "run_again"):
            return False
        template = self._template(intent, args, kwargs, options, own)
        if template is None:
            return False
        body = template.body(args, kwargs)
        check_size(self._pulse, self._name, body)
        text = template.text(
            intent.id,
            intent.token,
            args,
            kwargs,
            body,
            key=intent.key or "",
            eta=eta_text(self._pulse.app, countdown, eta, delay) if delay > 0 else "",
        )
        call = self._call(intent, template, args, kwargs, body, text)
        again = partial(self.send, args, kwargs, own)
        self._pending.append(_Prepared(len(self.found), intent, text, call, template, again))
        self.found.append(None)
        return True

    def _template(
        self, intent: Intent, args: Any, kwargs: Any, options: dict[str, Any], own: dict[str, Any]
    ) -> Template | None:
        said = tuple(intent.unique.headers.items())
        mine = tuple((name, value) for name, value in own.items() if name not in _CALLS_OWN)
        kind = (intent.key is None, intent.delay > 0, said, mine)
        try:
            known = self._templates.get(kind) or self._passing.get(kind)
        except TypeError:  # an option that cannot be compared
            return None
        if known is not None:
            return known
        extra = {KEY_HEADER: KEY_GAP, **intent.unique.headers} if intent.key is not None else {}
        if intent.delay > 0:
            extra[ETA_HEADER] = ETA_GAP
        given = {name: value for name, value in options.items() if name not in _CALLS_OWN}
        if extra:
            given["headers"] = {**(given.get("headers") or {}), **extra}
        template = make_template(
            self._pulse.app, self._catcher, self._producer, partial(self._send, args, kwargs), given
        )
        if template is not None:
            passes = template.envelope.headers.get("expires") is not None
            (self._passing if passes else self._templates)[kind] = template
        return template

    def _call(
        self, intent: Intent, template: Template, args: Any, kwargs: Any, body: str | bytes, text: str
    ) -> Call:
        fp, pulse = "", self._pulse
        if intent.digest is not None:
            if template.envelope.content_type != "application/json" or not _comes_back(args, kwargs):
                seen = replace(template.envelope, body=body).decode(pulse.app.conf.accept_content)
                args, kwargs = seen[:2]
            fp = fingerprint(args, kwargs)
        left = "" if intent.expires is None else us(intent.expires)
        values: list[Any] = [
            intent.id,
            intent.task,
            template.queue,
            intent.key or "",
            intent.digest or "",
            fp,
        ]
        values += [intent.token, text, us(max(intent.delay, 0.0)), "", "", intent.retention]
        values += ["1" if intent.digest else "0", len(template.lists), "", left, "origin", template.origin]
        values += intent.unique.fields
        return RESERVE.with_((*pulse.keys.script(intent.id, intent.digest), *template.lists), values)

    # -- sending

    def start(self, submit: Callable[..., Future[list[Any]]]) -> None:
        """Send all jobs that are pending, in one piece; ``submit`` is an executor's."""
        self._sent, self._pending = self._pending, []
        calls = [each.call for each in self._sent]
        self._replies = submit(run_all, self._pulse.store.client, calls, raising=False) if calls else None

    def settle(self) -> None:
        """Wait for the replies to what was sent, and put the answers in.

        Raises:
            redis.exceptions.RedisError, kombu.exceptions.OperationalError: whether those without an answer
                were enqueued is not known.
        """
        replies, self._replies = self._replies, None
        if replies is None:
            return
        notes: list[Call] = []
        made: list[tuple[_Prepared, Any]] = []
        for each, reply in zip(self._sent, replies.result(), strict=True):
            if isinstance(reply, Exception):
                self.found[each.place] = reply
            elif reply[0] in (b"RESERVED", b"SCHEDULED"):
                made.append((each, reply))
            else:
                self.found[each.place] = self._taken(each, reply, notes)
        self._publish(
            [(each, got) for each, got in made if got[0] == b"RESERVED" and not each.template.lists]
        )
        for each, _ in made:
            self.found[each.place] = self._result(each.intent.id, each, existed=False)
        run_all(self._pulse.store.client, notes)
        if self._pulse.keys.stored and made:
            self._pulse.saving.wrote(*(each.intent.id for each, _ in made))

    def _taken(self, each: _Prepared, reply: Sequence[Any], notes: list[Call]) -> Any:
        """Answer a call whose key another job has."""
        code, holder, intent = reply[0].decode(), reply[1].decode(), each.intent
        keys = self._pulse.keys
        if intent.digest is None or keys.partition_of(holder) != keys.partition_of(intent.digest):
            return _tried(each.again)  # whether that one still answers for it takes a look
        refused = intent.unique.on_conflict == "raise"
        note = "refused" if refused else code
        notes.append(duplicate_note(self._pulse, holder, note, intent.key, each.template.origin))
        if refused:
            return JobExists(intent.key or "", intent.task, holder)
        if code == "CONFLICT":
            return IdempotencyConflict(intent.key or "", intent.task, holder)
        return self._result(holder, each, existed=True)

    def _publish(self, made: Sequence[tuple[_Prepared, Any]]) -> None:
        """Publish what no script could push; take back what cannot be."""
        if not made:
            return
        pulse = self._pulse
        left = {each.intent.id: each.intent for each, _ in made}
        messages = [
            (
                each.intent.id,
                Envelope.load(each.text),
                Stamp(gen=int(reply[3]), marker=reply[1].decode(), at=int(reply[2])),
            )
            for each, reply in made
        ]
        try:
            for job_id in publish_all(pulse, self._producer, messages):
                del left[job_id]
        except BaseException:
            takes = [
                UNRESERVE.with_(
                    pulse.keys.script(job_id, intent.digest), [job_id, intent.token, us(intent.retention)]
                )
                for job_id, intent in left.items()
            ]
            run_all(pulse.store.client, takes, raising=False)
            raise

    def _result(self, job_id: str, each: _Prepared, *, existed: bool) -> Any:
        app, own = self._pulse.app, {**self._defaults, **self._options, **each.again.args[2]}
        result = (self._task.AsyncResult if self._task is not None else app.AsyncResult)(job_id)
        ignored = own.get("ignore_result")
        result.ignored = self._task.ignore_result if ignored is None and self._task is not None else ignored
        result.deduplicated = existed
        parent = app.current_worker_task
        if parent and own.get("add_to_parent", True):
            parent.add_trail(result)
        return result


#: Options of a call that its intent has taken up.
_CALLS_OWN = frozenset({KEY_HEADER, "countdown", "eta", *OPTIONS})


def _tried(call: partial[Any]) -> Any:
    """Return what ``call`` returns, or the error that is the call's own."""
    try:
        return call()
    except (IdempotencyConflict, JobExists) as exc:
        return exc


#: Of these JSON gives back what it was given.
_SAME = frozenset({str, int, bool, type(None)})


def _comes_back(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a worker sees these very arguments, so that they need not be decoded to know."""
    values = (*args, *kwargs.values()) if kwargs else args
    return all(type(value) in _SAME for value in values)
