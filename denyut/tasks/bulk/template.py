"""The message of one call as a text with gaps, so that many calls of a kind cost little more than their gaps.

``send_task`` is asked once what it would publish; what differs from call to call (ids, arguments, key) is
cut out. What comes of it is what Celery itself would have sent, to the byte.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from celery import signals
from celery.app.routes import MapRoute
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps

from denyut.tasks.bulk.short_repr import short_repr
from denyut.tasks.envelope import HEADER, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from denyut.tasks.envelope import Envelope
    from denyut.tasks.wire import Catcher

__all__ = ["Prototype", "Template", "can_have_template", "make_template"]

_MARK = uuid4().hex  # nobody's arguments have it
_GAP = re.compile(rf'"@{_MARK}:([a-z]+)@"')


def _gap(name: str) -> str:
    return f"@{_MARK}:{name}@"


#: As values of headers that differ from call to call.
KEY_GAP, ETA_GAP = _gap("key"), _gap("eta")


class Seen(BaseException):
    """What would have been published: no error, so nobody on the way out may take it for one."""

    def __init__(self, body: Any, options: dict[str, Any]) -> None:
        self.body = body
        self.options = options


class Prototype:
    """A producer that publishes nothing: it tells of what it was given."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def publish(self, body: Any, **options: Any) -> None:
        """Raise :class:`Seen`."""
        raise Seen(body, options)


@dataclass(frozen=True, slots=True)
class Template:
    """The messages of one kind of call.

    ``parts``: texts, and between them the names of gaps. ``lists``: where a script is to push them; empty:
    they are published by a producer, and the text is that of an ``Envelope``.
    """

    parts: list[str]
    lists: list[str]
    envelope: Envelope
    origin: str
    encode: Callable[[Any], tuple[str, str, str | bytes]]
    embed: Any
    repr_sizes: tuple[int, int, int | None]

    def body(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | bytes:
        """Return the encoded body of one call.

        Raises:
            kombu.exceptions.EncodeError: it cannot be encoded.
        """
        content_type, encoding, raw = self.encode((args, kwargs, self.embed))
        if (content_type, encoding) != (self.envelope.content_type, self.envelope.content_encoding):
            raise EncodeError(
                f"{content_type} with {encoding} is not what the first call of its kind was encoded as"
            )
        return raw

    @property
    def queue(self) -> str:
        """The queue that all go to."""
        return self.envelope.queue

    def text(
        self,
        job_id: str,
        token: str,
        args: Any,
        kwargs: Any,
        body: str | bytes,
        *,
        key: str = "",
        eta: str = "",
    ) -> str:
        """Return the message of one call. ``token``: stands where its stamp belongs."""
        args_size, kwargs_size, levels = self.repr_sizes
        quote = encode_basestring_ascii
        fill = {"id": f'"{job_id}"', "token": f'"{token}"', "tag": f'"{token}"'}
        fill["args"] = quote(short_repr(args, args_size, levels))
        fill["kwargs"] = quote(short_repr(kwargs, kwargs_size, levels))
        if self.lists:
            raw = body.encode() if isinstance(body, str) else body
            fill["body"] = f'"{b64encode(raw).decode()}"'
        else:
            fill["body"] = (
                quote(body) if isinstance(body, str) else json.dumps({"b64": b64encode(body).decode()})
            )
        if key:
            fill["key"] = quote(key)
        if eta:
            fill["eta"] = quote(eta)
        parts = self.parts.copy()
        parts[1::2] = [fill[name] for name in parts[1::2]]
        return "".join(parts)


def can_have_template(app: Any, name: str, task: Any) -> bool:
    """Whether the calls of the task ``name`` differ in nothing but ids, arguments and key.

    They may where a signal handler sees each message, where a route or the task looks at the arguments, or
    where Celery tells watchers of each call.
    """
    listeners = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
    if any(signal.receivers for signal in listeners) or app.conf.task_send_sent_event:
        return False
    if app.conf.task_protocol != 2 or app.conf.task_always_eager:  # noqa: PLR2004 - Celery's number
        return False
    if any(_looks_at(route, name) for route in app.amqp.router.routes or ()):
        return False
    if task is None:
        return True
    kind: Any = type(task)
    own = {"apply_async", "shadow_name"} & {name for each in _below_task(kind) for name in vars(each)}
    return not own and getattr(task, "_dump_pydantic_arguments", None) is None


def _looks_at(route: Any, name: str) -> bool:
    """Whether a route may depend on the arguments of the task ``name``, and not on its name alone."""
    return type(route) is not MapRoute and name in getattr(route, "only_of", (name,))


def _below_task(kind: Any) -> list[Any]:
    """Return the classes of a task that are neither Celery's nor this package's."""
    return [
        each for each in kind.__mro__ if each.__module__.split(".")[0] not in ("celery", "denyut", "builtins")
    ]


def make_template(
    app: Any, catcher: Catcher, producer: Any, send: Callable[..., Any], options: dict[str, Any]
) -> Template | None:
    """Ask ``send(task_id=..., producer=..., **options)`` what it would publish; None if that has no gaps.

    Raises:
        Whatever ``send`` raises for these options.
    """
    job_id = str(uuid4())
    try:
        send(task_id=job_id, producer=Prototype(producer), **options)
    except Seen as seen:
        body, given = seen.body, seen.options
    else:
        return None
    finally:
        consumer = getattr(app.backend, "result_consumer", None)
        if consumer is not None:
            consumer.cancel_for(job_id)
    headers = given["headers"] = dict(given["headers"])
    if headers.get("stamped_headers") or not isinstance(body, list | tuple):
        return None
    given["correlation_id"] = headers["id"] = _gap("id")
    if headers.get("root_id") == job_id:
        headers["root_id"] = _gap("id")
    for name, gap in (("argsrepr", "args"), ("kwargsrepr", "kwargs")):
        if name not in options:
            headers[name] = _gap(gap)
    return _cut(app, catcher, producer, body, given)


def _cut(app: Any, catcher: Catcher, producer: Any, body: Any, given: dict[str, Any]) -> Template | None:
    serializer, compression = given.get("serializer"), given.get("compression") or producer.compression
    given = {**given, "retry": False}

    def encode(content: Any) -> tuple[str, str, Any]:
        raw, content_type, encoding = producer._prepare(content, serializer, None, None, compression, {})  # noqa: SLF001
        return content_type, encoding, raw

    envelope = pack(producer, body, {**given, "headers": dict(given["headers"])})
    lists: list[str] = []
    if catcher.can_catch(producer):
        given["headers"][HEADER] = _gap("token")
        seen = catcher.seen(producer, body, given)
        if seen is None or seen[1]["properties"].get("body_encoding") != "base64":
            return None
        lists, message = seen
        properties = {**message["properties"], "delivery_tag": _gap("tag")}
        text = dumps({**message, "body": _gap("body"), "properties": properties})
    else:
        text = replace(envelope, body=_gap("body")).dump()
    amqp = app.amqp
    return Template(
        parts=_GAP.split(text),
        lists=lists,
        envelope=envelope,
        origin=str(envelope.headers.get("origin") or ""),
        encode=encode,
        embed=body[2],
        repr_sizes=(amqp.argsrepr_maxsize, amqp.kwargsrepr_maxsize, app.conf.get("task_repr_maxlevels")),
    )
