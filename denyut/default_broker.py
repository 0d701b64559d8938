"""An app without a broker gets one: ``DENYUT_REDIS_URL``, or the embedded server of its project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vine import promise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery.app.utils import Settings as CelerySettings

    from denyut.app import Denyut

__all__ = ["default_broker"]

_BROKER_SETTINGS = ("broker_url", "broker_read_url", "broker_write_url", "broker_host", "broker_transport")
_BROKER_VARIABLES = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")


class _EmbeddedUrl(promise):  # type: ignore[misc]  # vine has no types
    """The address of the embedded server, which is started when somebody asks for the address.

    Celery evaluates a promise in ``broker_url`` and ``result_backend`` at each reading, so that
    neither importing an app nor looking at its configuration starts a server.
    """

    def __init__(self) -> None:
        super().__init__(self._address)

    def __call__(self) -> str:
        return self._address()

    def __iter__(self) -> Iterator[str]:
        """A broker may be a list of addresses; Celery's reports ask in this way."""
        yield self._address()

    def __repr__(self) -> str:
        return "<the embedded server, started when used>"

    def __reduce__(self) -> tuple[type[_EmbeddedUrl], tuple[()]]:
        return (_EmbeddedUrl, ())

    @staticmethod
    def _address() -> str:
        from denyut.embedded import ensure_server

        return ensure_server().broker_url


def default_broker(pulse: Denyut) -> None:
    """Give the app of ``pulse`` a broker when its configuration is first used, if it has none by then.

    Together with it come the other values of :mod:`denyut.celeryconfig`. What the user has set, in
    whatever way, is never changed; an app that has a broker gets nothing.
    """

    def fill(**_: Any) -> None:
        conf = pulse.app.conf
        if not _has_broker(conf):
            _fill(conf, pulse.settings.redis_url)

    pulse.app.on_after_configure.connect(fill, weak=False)
    if pulse.app.configured:
        fill()


def _has_broker(conf: CelerySettings) -> bool:
    return any(os.environ.get(name) for name in _BROKER_VARIABLES) or any(
        conf.value_set_for(name) and conf.get(name) for name in _BROKER_SETTINGS
    )


def _fill(conf: CelerySettings, url: str | None) -> None:
    from denyut import celeryconfig
    from denyut.urls import for_celery

    address = for_celery(url) if url else _EmbeddedUrl()
    recommended = {**vars(celeryconfig), "broker_url": address, "result_backend": address}
    for name, value in recommended.items():
        if name.startswith("_") or name == "annotations":
            continue
        if not conf.value_set_for(name) or conf.get(name) is None:
            conf[name] = value
