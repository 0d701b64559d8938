"""How a worker receives the messages of a job: as Celery does, but what is for later goes into the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from celery.worker.strategy import default

from denyut.tasks.shelf import Shelf
from denyut.tasks.undecodable import UNDECODABLE, end_undecodable

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["job_strategy"]

logger = logging.getLogger(__name__)

_shelves: WeakKeyDictionary[Denyut, Shelf] = WeakKeyDictionary()


def job_strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Any:
    """Return the handler of the messages of ``task`` (see ``celery.worker.strategy.default``)."""
    handle = default(task, app, consumer, **options)
    shelf = _shelves.get(app.denyut)
    if shelf is None:  # one for all tasks of the app
        shelf = _shelves[app.denyut] = Shelf(app.denyut)

    def receive(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **more: Any) -> Any:
        # A body that is decoded is one of message protocol 1, which says all of itself there.
        if body is None and shelf.take(task, message):
            ack(logger, consumer.connection_errors)
            return None
        try:
            return handle(message, body, ack, reject, callbacks, **more)
        except UNDECODABLE as exc:
            end_undecodable(app.denyut, task, message, exc)
            raise  # Celery discards the message, and says so

    return receive
