from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery import Celery

import denyut
from denyut import Denyut, JobTask
from denyut.errors import ConfigurationError, EmbeddedUnavailable


@pytest.fixture
def app():
    made = Celery("app", set_as_current=False)
    yield made
    made.close()


def test_every_public_name_is_there():
    for name in denyut.__all__:
        assert getattr(denyut, name) is not None
    with pytest.raises(AttributeError, match="module 'denyut' has no attribute 'nothing'"):
        _ = denyut.nothing


def test_it_is_reached_through_the_app(app):
    pulse = Denyut(app)
    assert app.denyut is pulse
    assert pulse.app is app
    assert repr(pulse) == "<Denyut of 'app'>"


def test_an_app_has_one_denyut(app):
    Denyut(app)
    with pytest.raises(ConfigurationError, match=r"has a Denyut already; use app\.denyut"):
        Denyut(app)


def test_making_it_neither_loads_the_configuration_nor_opens_a_connection(app):
    app.config_from_object("no.such.module")
    pulse = Denyut(app)
    assert not app.configured
    assert "store" not in vars(pulse)


def test_settings_are_read_when_they_are_first_needed(app):
    pulse = Denyut(app)
    app.conf.denyut_lease_ttl = 3.0
    assert pulse.settings.lease_ttl == 3.0
    assert pulse.keys.partitions == pulse.settings.partitions


def test_a_bad_setting_of_a_configured_app_is_an_error_at_once(app):
    app.conf.denyut_lease_ttl = -1
    assert app.conf.task_always_eager is False
    with pytest.raises(ConfigurationError, match="denyut_lease_ttl=-1"):
        Denyut(app)


def test_a_bad_setting_is_an_error_when_a_job_is_sent(app):
    app.conf.update(broker_url="memory://", denyut_lease_ttl=-1)
    Denyut(app)
    with pytest.raises(ConfigurationError, match="denyut_lease_ttl=-1"):
        app.send_task("any")


def test_every_task_but_celerys_own_is_a_job(app):
    @app.task
    def before():
        """Declared before Denyut came."""

    Denyut(app)

    @app.task
    def after():
        """Declared when it was there."""

    assert isinstance(app.tasks[before.name], JobTask)
    assert isinstance(app.tasks[after.name], JobTask)
    own = [task for name, task in app.tasks.items() if name.startswith("celery.")]
    assert own
    assert not any(isinstance(task, JobTask) for task in own)


def test_only_the_tasks_that_ask_for_it_are_jobs_if_it_is_told_so(app):
    Denyut(app, all_tasks=False)

    @app.task
    def plain():
        """No job."""

    @app.task(base=JobTask)
    def job():
        """A job."""

    assert not isinstance(app.tasks[plain.name], JobTask)
    assert isinstance(app.tasks[job.name], JobTask)


# ---- where the jobs live ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broker",
    ["redis://h:1/2", "rediss://h", "valkey://h", "redis+socket:///run/v.sock?virtual_host=1"],
)
def test_a_broker_that_is_redis_holds_the_jobs(app, broker):
    app.conf.broker_url = broker
    assert Denyut(app).redis_url() == broker


@pytest.mark.parametrize("brokers", [["redis://a", "redis://b"], "redis://a;redis://b"])
def test_of_several_brokers_the_first_holds_the_jobs(app, brokers):
    app.conf.broker_url = brokers
    assert Denyut(app).redis_url() == "redis://a"


def test_with_another_broker_the_user_must_say_which_redis_holds_the_jobs(app):
    app.conf.broker_url = "amqp://user:secret@rabbit//"
    with pytest.raises(ConfigurationError, match=r"amqp://user:\*\*\*@rabbit.*DENYUT_REDIS_URL"):
        Denyut(app).redis_url()


def test_the_setting_goes_before_the_broker_and_the_environment(app, monkeypatch):
    monkeypatch.setenv("DENYUT_REDIS_URL", "redis://env")
    app.conf.update(broker_url="redis://broker", denyut_redis_url="redis://setting")
    assert Denyut(app).redis_url() == "redis://setting"


def test_the_environment_goes_before_the_broker(app, monkeypatch):
    monkeypatch.setenv("DENYUT_REDIS_URL", "redis://env")
    app.conf.broker_url = "redis://broker"
    assert Denyut(app).redis_url() == "redis://env"


def test_without_any_the_embedded_server_holds_them(app, monkeypatch):
    server = SimpleNamespace(url="unix:///e.sock", broker_url="redis+socket:///e.sock")
    monkeypatch.setattr("denyut.embedded.ensure_server", lambda: server)
    pulse = Denyut(app)
    assert pulse.redis_url() in {server.url, server.broker_url}
    assert app.conf.broker_url == app.conf.result_backend == server.broker_url


def test_where_no_server_may_be_started_the_error_says_what_to_set(app):
    with pytest.raises(EmbeddedUnavailable, match="set DENYUT_REDIS_URL"):
        _ = Denyut(app).store.client


def test_the_store_is_connected_to_it(pulse, valkey):
    made = pulse()
    assert made.store is made.store
    made.store.client.set("a", 1)
    assert valkey.get("a") == b"1"


def test_two_apps_in_one_process_do_not_share_anything(pulse):
    one, two = pulse(denyut_lease_ttl=1.0), pulse(denyut_lease_ttl=2.0)
    assert one.settings.lease_ttl != two.settings.lease_ttl
    assert one.keys.job("x").record != two.keys.job("x").record
