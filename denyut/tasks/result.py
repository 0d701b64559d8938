"""The result of a job as it is kept in its record: encoded once, with the app's result serializer."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from kombu.serialization import dumps, loads, prepare_accept_content

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["decode_result", "encode_result"]


def encode_result(value: Any, serializer: str) -> str:
    """Return ``value`` as JSON text ``[content_type, content_encoding, payload]``.

    Raises:
        kombu.exceptions.EncodeError: if ``serializer`` cannot encode it.
    """
    content_type, encoding, payload = dumps(value, serializer)
    body = payload if isinstance(payload, str) else {"b64": b64encode(payload).decode()}
    return json.dumps([content_type, encoding, body])


def decode_result(text: str | bytes, accept: Iterable[str] = ("json",)) -> Any:
    """Return the value that :func:`encode_result` encoded.

    Args:
        text: what was stored.
        accept: serializers that may be decoded: the app's ``result_accept_content``, or its
            ``accept_content``.

    Raises:
        kombu.exceptions.ContentDisallowed: if it was encoded by another.
    """
    content_type, encoding, body = json.loads(text)
    payload = b64decode(body["b64"]) if isinstance(body, dict) else body
    return loads(payload, content_type, encoding, accept=prepare_accept_content(accept))
