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
