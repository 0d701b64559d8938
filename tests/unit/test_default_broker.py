from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from celery import Celery

from denyut import embedded
from denyut.config import from_celery
from denyut.default_broker import default_broker
from denyut.errors import EmbeddedUnavailable

EMBEDDED = "redis+socket:///the/embedded.sock"


class Pulse:
    """What ``default_broker`` uses of Denyut."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    @property
    def settings(self):
        return from_celery(self.app.conf)


@pytest.fixture
def started(monkeypatch):
    """Count how often the embedded server is asked for, instead of starting it."""
    calls: list[int] = []

    def ensure_server():
        calls.append(1)
        return SimpleNamespace(broker_url=EMBEDDED)

    monkeypatch.setattr(embedded, "ensure_server", ensure_server)
    return calls


def app_with(source: object = None, *, namespace: str | None = None, **kwargs: object) -> Celery:
    app = Celery("default", set_as_current=False, **kwargs)
    if source is not None:
        app.config_from_object(source, namespace=namespace)
    default_broker(Pulse(app))
    return app


def test_an_app_without_a_broker_gets_the_embedded_server_as_broker_and_result_backend(started):
    app = app_with()
    assert app.conf.broker_url == app.conf.broker_read_url == app.conf.broker_write_url == EMBEDDED
    assert app.conf.result_backend == EMBEDDED
    assert app.connection_for_write().as_uri() == EMBEDDED
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.backend.connparams["health_check_interval"] == 25
    assert app.conf.get("annotations") is None


def test_an_app_that_was_configured_before_gets_it_too(started):
    app = Celery("default", set_as_current=False)
    assert app.conf.task_always_eager is False
    default_broker(Pulse(app))
    assert app.conf.broker_url == EMBEDDED


def test_looking_at_the_configuration_starts_no_server(started):
    app = app_with()
    assert app.conf.task_always_eager is False
    assert "started when used" in repr(app.conf.without_defaults())
    assert not started
    assert app.conf.broker_url
    assert started


def test_a_report_of_the_configuration_shows_the_address(started):
    assert f"broker_url: '{EMBEDDED}" in app_with().conf.humanize()


def test_a_server_that_must_not_be_started_is_an_error_when_the_broker_is_needed():
    app = app_with()  # the tests' environment forbids it
    assert app.conf.timezone is None
    with pytest.raises(EmbeddedUnavailable, match="DENYUT_EMBEDDED=0 forbids"):
        app.connection_for_write()


CONFIGURED = {
    "argument": {"broker": "memory://mine"},
    "module": {"source": {"broker_url": "memory://mine"}},
    "old name": {"source": {"BROKER_URL": "memory://mine"}},
    "namespace": {"source": {"CELERY_BROKER_URL": "memory://mine"}, "namespace": "CELERY"},
    "changes": {"changes": {"broker_url": "memory://mine"}},
}


@pytest.mark.parametrize("how", CONFIGURED.values(), ids=CONFIGURED)
def test_a_broker_of_the_user_is_kept_and_nothing_else_is_changed(started, how):
    app = app_with(**how)
    assert app.conf.broker_url == "memory://mine"
    assert app.conf.result_backend is None
    assert app.conf.worker_prefetch_multiplier == 4
    assert not started


@pytest.mark.parametrize("name", ["broker_read_url", "broker_write_url"])
def test_a_broker_for_one_direction_is_a_broker(started, name):
    app = app_with({name: "memory://mine"})
    assert getattr(app.conf, name) == "memory://mine"
    assert app.conf.worker_prefetch_multiplier == 4


def test_a_broker_set_on_the_app_is_kept(started):
    app = app_with()
    app.conf.broker_url = "memory://before-loading"
    assert app.conf.task_always_eager is False
    assert app.conf.broker_url == "memory://before-loading"
    app = app_with()
    assert app.conf.task_always_eager is False
    app.conf.update(broker_url="memory://after-loading")
    assert app.conf.broker_url == "memory://after-loading"
    assert not started


def test_a_configuration_that_is_loaded_again_is_looked_at_again(started):
    app = app_with()
    assert app.conf.broker_url == EMBEDDED
    app.config_from_object({"broker_url": "memory://mine"})
    assert app.conf.broker_url == "memory://mine"
    assert app.conf.worker_prefetch_multiplier == 4


def test_a_broker_in_the_environment_is_kept(started, monkeypatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://env")
    app = app_with()
    assert app.conf.broker_url == "memory://env"
    assert app.conf.worker_prefetch_multiplier == 4


def test_the_redis_of_the_jobs_is_the_broker_if_there_is_no_other(started, monkeypatch):
    app = app_with({"denyut_redis_url": "unix:///run/v.sock?db=1"})
    assert app.conf.broker_url == app.conf.result_backend == "redis+socket:///run/v.sock?virtual_host=1"
    monkeypatch.setenv("DENYUT_REDIS_URL", "valkey://env:1/0")
    assert app_with().conf.broker_url == "redis://env:1/0"
    assert not started


def test_values_of_the_user_are_kept_beside_the_embedded_broker(started):
    app = app_with(
        {"result_backend": "cache+memory://", "worker_prefetch_multiplier": 8, "result_expires": 0}
    )
    assert app.conf.broker_url == EMBEDDED
    assert app.conf.result_backend == "cache+memory://"
    assert app.conf.worker_prefetch_multiplier == 8
    assert app.conf.result_expires == 0
    assert app.conf.worker_send_task_events is True


def test_the_address_survives_pickling(started):
    app = app_with()
    assert app.conf.task_always_eager is False
    address = pickle.loads(pickle.dumps(app.conf["broker_url"]))
    assert address() == EMBEDDED
