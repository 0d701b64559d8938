"""A task message as data: kept in the job's record, so that anybody can publish it again.

Recovery needs neither the broker's redelivery nor the task's code: the envelope holds the encoded
body, the headers and the routing.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kombu import Queue
from kombu.compression import decompress
from kombu.exceptions import EncodeError
from kombu.serialization import dumps, loads, prepare_accept_content, registry

__all__ = ["ETA_HEADER", "HEADER", "Envelope", "Stamp", "pack", "rebuild"]

#: The message header that carries :class:`Stamp`.
HEADER = "denyut"

#: The message header that says for when a job was meant. Not Celery's ``eta``: with that a worker whose
#: clock is behind would keep a job that is due.
ETA_HEADER = "denyut_eta"

_PROPERTIES = ("correlation_id", "reply_to", "priority", "delivery_mode")
_BODY_HEADERS = ("callbacks", "errbacks", "chain", "chord")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a published message says of itself.

    ``gen``: the job's generation. ``marker``: of the partition when it was sent. ``at``: when (us).
    """

    gen: int = 0
    marker: str = ""
    at: int = 0

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Stamp:
        """Return the stamp of a received request; an empty one for a plain client's message."""
        raw = request.get(HEADER)
        if not isinstance(raw, Mapping):
            return cls()
        gen, marker, at = raw.get("gen"), raw.get("marker"), raw.get("at")
        if not (isinstance(gen, int) and isinstance(marker, str) and isinstance(at, int)):
            return cls()  # not one of ours
        return cls(gen, marker, at)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message. ``body`` is encoded as ``content_type`` and ``content_encoding`` say."""

    body: str | bytes
    content_type: str
    content_encoding: str
    headers: dict[str, Any]
    properties: dict[str, Any]
    exchange: str
    routing_key: str

    @property
    def queue(self) -> str:
        """The name of the queue it goes to (the routing key where a named exchange decides)."""
        return self.routing_key

    def dump(self) -> str:
        """Return the envelope as JSON text."""
        body = self.body if isinstance(self.body, str) else {"b64": b64encode(self.body).decode()}
        headers = {k: v for k, v in self.headers.items() if k != HEADER}
        data = (body, self.content_type, self.content_encoding, headers)
        return json.dumps([*data, self.properties, self.exchange, self.routing_key], default=str)

    @classmethod
    def load(cls, text: str | bytes) -> Envelope:
        """Read what :meth:`dump` wrote, or a message as kombu's Redis transport has it in its Lists."""
        data = json.loads(text)
        if isinstance(data, dict):
            return cls.of_wire(data)
        body, content_type, encoding, headers, properties, exchange, routing_key = data
        raw = b64decode(body["b64"]) if isinstance(body, dict) else body
        return cls(raw, content_type, encoding, headers, properties, exchange, routing_key)

    @classmethod
    def of_wire(cls, message: Mapping[str, Any]) -> Envelope:
        """Return a message of kombu's virtual transports as an envelope."""
        properties, body = message["properties"], message["body"]
        where = properties["delivery_info"]
        return cls(
            body=b64decode(body) if properties.get("body_encoding") == "base64" else body,
            content_type=message["content-type"],
            content_encoding=message["content-encoding"],
            headers={k: v for k, v in message["headers"].items() if k != HEADER},
            properties={k: properties[k] for k in _PROPERTIES if properties.get(k) is not None},
            exchange=where.get("exchange") or "",
            routing_key=where.get("routing_key") or "",
        )

    @classmethod
    def received(cls, message: Any) -> Envelope:
        """Return a message that kombu has received. It is decompressed already, so it says so."""
        body, info, headers = message.body, message.delivery_info, dict(message.headers)
        headers.pop("compression", None)
        if isinstance(body, bytes) and message.content_encoding == "utf-8":
            body = body.decode()
        return cls(
            body=body,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=headers,
            properties={k: v for k, v in message.properties.items() if k in _PROPERTIES and v is not None},
            exchange=info.get("exchange") or "",
            routing_key=info.get("routing_key") or "",
        )

    def decode(self, accept: Sequence[str]) -> tuple[Any, Any, Any]:
        """Return ``(args, kwargs, embed)`` as a worker that accepts ``accept`` will see them."""
        body: Any = self.body
        if compression := self.headers.get("compression"):
            body = decompress(body, compression)
        args, kwargs, embed = loads(
            body, self.content_type, self.content_encoding, accept=prepare_accept_content(accept)
        )
        return args, kwargs, embed

    def publish(self, app: Any, stamp: Stamp, *, producer: Any = None) -> None:
        """Publish the message with ``stamp``. Raises what the broker raises."""
        with app.producer_or_acquire(producer) as sender:
            sender.publish(self.body, **self.publish_options(app, stamp))

    def publish_options(self, app: Any, stamp: Stamp) -> dict[str, Any]:
        """Return the options of ``producer.publish`` with which the message goes out as it was."""
        return {
            **self.properties,
            "content_type": self.content_type,
            "content_encoding": self.content_encoding,
            "headers": {**self.headers, HEADER: asdict(stamp)},
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "declare": [self._queue_of(app)] if not self.exchange else None,
            "retry": True,
            "retry_policy": dict(app.conf.task_publish_retry_policy),
        }

    def _queue_of(self, app: Any) -> Any:
        queues = app.amqp.queues
        return queues[self.routing_key] if self.routing_key in queues else Queue(self.routing_key)


def pack(producer: Any, body: Any, options: Mapping[str, Any]) -> Envelope:
    """Encode ``body`` as ``producer.publish(body, **options)`` would, and return the envelope."""
    headers = options["headers"]
    compression = options.get("compression") or producer.compression
    raw, content_type, encoding = producer._prepare(  # noqa: SLF001 - the one encoder that kombu has
        body,
        options.get("serializer"),
        options.get("content_type"),
        options.get("content_encoding"),
        compression,
        headers,
    )
    exchange = options.get("exchange")
    return Envelope(
        body=raw,
        content_type=content_type,
        content_encoding=encoding,
        headers=dict(headers),
        properties={k: options[k] for k in _PROPERTIES if options.get(k) is not None},
        exchange=getattr(exchange, "name", exchange) or "",
        routing_key=options.get("routing_key") or "",
    )


def rebuild(app: Any, serializer: str, request: Mapping[str, Any]) -> Envelope:
    """Make an envelope from a request that a worker has already decoded.

    For messages of clients that keep no record, and for records that Redis lost.
    """
    body = (
        request.get("args") or (),
        request.get("kwargs") or {},
        {k: request.get(k) for k in _BODY_HEADERS},
    )
    content_type, encoding, raw = _encode(body, serializer, app.conf.accept_content)
    info = request.get("delivery_info") or {}
    properties = request.get("properties") or {}
    skip = {*_BODY_HEADERS, "args", "kwargs", "delivery_info", "properties", "hostname", "is_eager"}
    skip |= {"loglevel", "logfile", "reply_to", "correlation_id", "headers", "compression", HEADER}
    return Envelope(
        body=raw,
        content_type=content_type,
        content_encoding=encoding,
        headers={k: v for k, v in request.items() if k not in skip and _plain(v)},
        properties={k: properties[k] for k in _PROPERTIES if properties.get(k) is not None},
        exchange=info.get("exchange") or "",
        routing_key=info.get("routing_key") or app.conf.task_default_queue,
    )


def _encode(body: Any, serializer: str, accept: Sequence[str]) -> tuple[str, str, Any]:
    """Encode ``body``: with ``serializer``, or with the first that workers accept which can carry it."""
    failed: EncodeError | None = None
    for name in (serializer, *(registry.type_to_name.get(each, each) for each in accept)):
        try:
            content_type, encoding, raw = dumps(body, name)
        except EncodeError as exc:
            failed = failed or exc
        else:
            return content_type, encoding, raw
    assert failed is not None
    raise failed


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | tuple | dict)
