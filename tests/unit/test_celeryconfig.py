from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery
from celery.app.defaults import DEFAULTS, SETTING_KEYS

from denyut import celeryconfig

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reload_with(monkeypatch):
    def reload(**env: str):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return importlib.reload(celeryconfig)

    yield reload
    monkeypatch.undo()
    for name in ("broker_url", "result_backend"):
        vars(celeryconfig).pop(name, None)
    importlib.reload(celeryconfig)


def values() -> dict[str, object]:
    return {name: value for name, value in vars(celeryconfig).items() if re.fullmatch("[a-z][a-z_]*", name)}


def test_every_name_is_a_setting_of_celery():
    # The health check is documented and read, but has no default; its effect is tested below.
    assert set(values()) - {"annotations", "redis_backend_health_check_interval"} <= SETTING_KEYS


def test_every_value_but_the_pinned_one_differs_from_celerys_default():
    same = {name for name, value in values().items() if name in DEFAULTS and DEFAULTS[name] == value}
    assert same == set(), "a default needs no line"
    assert tuple(celeryconfig.accept_content) == tuple(DEFAULTS["accept_content"])


def test_every_block_of_values_has_its_reason_above():
    text = (ROOT / "denyut" / "celeryconfig.py").read_text()
    body = text[text.index("# JSON only") :]
    for block in body.strip().split("\n\n"):
        assert block.startswith("# "), f"no reason: {block}"


def test_the_file_at_the_root_is_the_one_in_the_package():
    link = ROOT / "celeryconfig.py"
    assert link.is_symlink()
    assert link.readlink() == Path("denyut/celeryconfig.py")


def test_an_app_takes_it_as_it_is(reload_with):
    reload_with(DENYUT_REDIS_URL="valkey://h:1/2")
    app = Celery("config", set_as_current=False)
    app.config_from_object("denyut.celeryconfig")
    assert app.conf.broker_url == app.conf.result_backend == "redis://h:1/2"
    assert app.conf.worker_prefetch_multiplier == 1


def test_the_broker_alone_can_be_another(reload_with):
    reload_with(DENYUT_REDIS_URL="redis://h:1/2", CELERY_BROKER_URL="redis://other/0")
    app = Celery("config", set_as_current=False)
    app.config_from_object("denyut.celeryconfig")
    assert app.conf.broker_url == "redis://other/0"
    assert app.conf.result_backend == "redis://h:1/2"


def test_without_an_address_none_is_invented():
    assert not hasattr(celeryconfig, "broker_url")
    assert not hasattr(celeryconfig, "result_backend")


def test_it_is_found_at_the_root_by_the_name_that_celery_looks_for():
    script = "import celeryconfig; print(celeryconfig.worker_prefetch_multiplier)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


def test_a_worker_and_a_client_run_with_it_over_tcp_and_over_a_socket(valkey_server, reload_with):
    for url in (valkey_server.url, valkey_server.unix_url):
        reload_with(DENYUT_REDIS_URL=url)
        app = Celery("config", set_as_current=False)
        app.config_from_object("denyut.celeryconfig")
        with app.connection_for_write() as connection, connection.SimpleQueue("q") as queue:
            queue.put("hello")
            assert queue.get(timeout=5).payload == "hello"
        assert app.backend.connparams["health_check_interval"] == 25
        app.backend.store_result("id", 42, "SUCCESS")
        assert app.AsyncResult("id").get(timeout=5) == 42
        app.close()
