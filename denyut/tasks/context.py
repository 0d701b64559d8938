"""A message's request as Celery's backends want it, outside of a worker's pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.app.task import Context

if TYPE_CHECKING:
    from denyut.tasks.envelope import Envelope

__all__ = ["context_of"]


def context_of(app: Any, envelope: Envelope) -> Context:
    """Return the request that ``envelope`` makes.

    Raises:
        kombu.exceptions.ContentDisallowed, kombu.exceptions.DecodeError: if it cannot be read here.
    """
    args, kwargs, embed = envelope.decode(app.conf.accept_content)
    info = {"exchange": envelope.exchange, "routing_key": envelope.routing_key}
    return Context(
        {**envelope.headers, **envelope.properties, "args": args, "kwargs": kwargs, **(embed or {})},
        delivery_info=info,
    )
