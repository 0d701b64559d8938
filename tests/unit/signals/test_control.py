from __future__ import annotations

from types import SimpleNamespace

from celery.worker.control import Panel

from denyut.signals.control import install_control
from denyut.tasks.cancellation import HURRY


def test_the_command_lets_the_workers_own_heartbeat_beat_now():
    first, second, beaten = SimpleNamespace(), SimpleNamespace(), []
    install_control(first, lambda: beaten.append("first"))
    install_control(second, lambda: beaten.append("second"))
    state = SimpleNamespace(consumer=SimpleNamespace(controller=first))
    assert Panel.data[HURRY](state) == {"ok": "beating"}
    assert beaten == ["first"]


def test_a_worker_without_a_heartbeat_says_so():
    install_control(SimpleNamespace(), lambda: None)
    state = SimpleNamespace(consumer=SimpleNamespace(controller=SimpleNamespace()))
    assert "no heartbeat" in Panel.data[HURRY](state)["error"]


def test_a_revoked_job_that_waits_ends_at_once(pulse):
    app = pulse().app

    @app.task(name="t.noop", shared=False)
    def noop():
        pass

    install_control(SimpleNamespace(), lambda: None)
    waiting, scheduled = noop.delay(), noop.apply_async(countdown=60)
    state = SimpleNamespace(app=app, consumer=None)
    Panel.data["revoke"](state, task_id=[waiting.id, scheduled.id, "ghost"])
    for result in (waiting, scheduled):
        assert app.denyut.jobs.get(result.id, fresh=True).state == "CANCELLED"
        assert result.state == "REVOKED"


def test_a_running_job_is_left_to_celery(pulse):
    app = pulse().app
    client, keys = app.denyut.store.client, app.denyut.keys.job("runs")
    client.hset(keys.record, mapping={"state": "RUNNING", "fence": 7, "attempt": 1, "task": "t"})
    install_control(SimpleNamespace(), lambda: None)
    Panel.data["revoke"](SimpleNamespace(app=app, consumer=None), task_id="runs")
    assert client.hget(keys.record, "state") == b"RUNNING"
