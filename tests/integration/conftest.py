"""pytest-celery's fixtures on processes of this machine: no Docker is asked for, and none is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from celery import Celery
from celery._state import _tls
from nodes.containers import ValkeyBackend, ValkeyContainer, WorkerContainer
from nodes.valkey import PrivateValkey
from pool_matrix import pytest_terminal_summary
from pytest_celery import (
    CeleryBackendCluster,
    CeleryBrokerCluster,
    RedisTestBroker,
)

__all__ = ["pytest_terminal_summary"]  # a hook: pytest finds it by its name


@pytest.fixture(scope="session")
def docker_client() -> NoReturn:
    """Everything of pytest-celery that would start a container comes through here."""
    pytest.fail("a fixture wants Docker; override it in tests/integration/conftest.py")


@pytest.fixture
def default_redis_broker(restartable_valkey: PrivateValkey) -> ValkeyContainer:
    return ValkeyContainer(restartable_valkey)


@pytest.fixture
def default_redis_backend(restartable_valkey: PrivateValkey) -> ValkeyContainer:
    return ValkeyContainer(restartable_valkey)


@pytest.fixture
def celery_redis_backend(default_redis_backend: ValkeyContainer) -> Iterator[ValkeyBackend]:
    backend = ValkeyBackend(default_redis_backend)
    yield backend
    backend.teardown()


@pytest.fixture
def celery_broker_cluster(celery_redis_broker: RedisTestBroker) -> CeleryBrokerCluster:
    """Redis alone: the stock fixture would run every test on RabbitMQ, too."""
    return CeleryBrokerCluster(celery_redis_broker)


@pytest.fixture
def celery_backend_cluster(celery_redis_backend: ValkeyBackend) -> CeleryBackendCluster:
    return CeleryBackendCluster(celery_redis_backend)


@pytest.fixture
def celery_setup_app(celery_setup_app: Celery) -> Iterator[Celery]:
    """The stock app, as the current one for this test only."""
    before = getattr(_tls, "current_app", None)
    celery_setup_app.set_current()
    yield celery_setup_app
    _tls.current_app = before
    celery_setup_app.close()


@pytest.fixture
def default_worker_container_cls() -> type[WorkerContainer]:
    return WorkerContainer


@pytest.fixture(scope="session")
def default_worker_container_session_cls() -> type[WorkerContainer]:
    return WorkerContainer


@pytest.fixture
def default_worker_container(
    default_worker_container_cls: type[WorkerContainer],
    default_worker_initial_content: dict[str, bytes],
    default_worker_env: dict[str, str],
    default_worker_app: Celery,
    tmp_path: Path,
) -> Iterator[WorkerContainer]:
    container = default_worker_container_cls(tmp_path, default_worker_initial_content, default_worker_env)
    default_worker_app.set_current()  # making the content made an app, which took that place
    container.node.start()
    yield container
    container.teardown()
