"""Fixtures for every test: a private Valkey, apps on it, and a check that nothing is left behind."""

from __future__ import annotations

import gc
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import hypothesis
import pytest
from nodes.postgres import PrivatePostgres, find_programs
from nodes.valkey import PrivateValkey
from nodes.worker import CeleryWorker
from redis import Redis
from support import SESSION_PIDS, adopt_orphans, missing, no_leaks

if TYPE_CHECKING:
    from denyut import Denyut

#: Taken out of the environment: the tests must never reach a server that is not theirs.
_FOREIGN = ("DENYUT_", "CELERY_", "REDIS_", "DJANGO_", "FLASK_", "APP_ENV", "ENVIRONMENT")

MakePulse = Callable[..., "Denyut"]
StartWorker = Callable[..., CeleryWorker]


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith(_FOREIGN) or name == "ENV"]:
        del os.environ[name]
    os.environ["DENYUT_EMBEDDED"] = "0"  # a test that wants the embedded server says so
    adopt_orphans()
    # Cores are shared: how long one example takes says nothing about the code.
    hypothesis.settings.register_profile("denyut", deadline=None, print_blob=True)
    hypothesis.settings.load_profile("denyut")


@pytest.fixture(autouse=True)
def leak_detector() -> Iterator[None]:
    """Fail a test that leaves a thread or a process behind."""
    with no_leaks():
        yield


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[PrivateValkey]:
    """One private server for the whole session. Get it emptied through ``valkey``."""
    with tempfile.TemporaryDirectory(prefix="denyut-") as folder:  # short: a socket path has 107 bytes
        server = PrivateValkey(Path(folder))
        server.start()
        SESSION_PIDS.add(server.pid)
        yield server
        gc.collect()  # a result that nobody has asked for takes its leave of the server
        server.kill()


@pytest.fixture
def valkey(valkey_server: PrivateValkey) -> Iterator[Redis]:
    """A client of the private server, which is empty."""
    with valkey_server.client() as client:
        client.flushall()
        yield client


@pytest.fixture
def restartable_valkey() -> Iterator[PrivateValkey]:
    """A server of this test alone, with its data on disk: kill(), stop(), pause(), start()."""
    with tempfile.TemporaryDirectory(prefix="denyut-") as folder:
        server = PrivateValkey(Path(folder), appendonly=True)
        server.start()
        yield server
        server.kill()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One private PostgreSQL for the whole session. Get a database of it through ``postgres``."""
    programs = find_programs() if find_spec("psycopg") else None
    if programs is None:
        missing("PostgreSQL", "install the extra 'test', which brings its programs and the driver psycopg")
    server = PrivatePostgres()
    try:
        server.start(programs)
        SESSION_PIDS.add(server.pid)
        yield server
    finally:
        server.stop()


@pytest.fixture
def postgres(postgres_server: PrivatePostgres) -> Iterator[str]:
    """The address of an empty PostgreSQL database, for SQLAlchemy."""
    url = postgres_server.database()
    yield url
    postgres_server.drop(url)


@pytest.fixture
def pulse(valkey_server: PrivateValkey, valkey: Redis) -> Iterator[MakePulse]:
    """Make ``Denyut`` objects on the private server, each with a Celery app and a prefix of its own.

    ``pulse(denyut_lease_ttl=1.0)`` takes settings of Celery and Denyut; ``all_tasks``, ``url`` and
    ``main`` are the exceptions. The app is ``pulse(...).app``.
    """
    made: list[Denyut] = []

    def make(*, all_tasks: bool = True, url: str | None = None, main: str = "tests", **conf: Any) -> Denyut:
        from celery import Celery

        from denyut import Denyut

        app = Celery(main, set_as_current=False)
        address = url or valkey_server.url
        defaults = {
            "broker_url": address,
            "result_backend": address,
            "denyut_prefix": f"t{uuid4().hex[:8]}",
            "task_default_queue": f"q{uuid4().hex[:8]}",
        }
        app.conf.update(defaults | conf)
        made.append(Denyut(app, all_tasks=all_tasks))
        return made[-1]

    yield make
    for each in made:
        for part in {"saving", "database"} & vars(each).keys():
            getattr(each, part).close()
        each.store.close()
        _disconnect(each.app)
        each.app.close()


def _disconnect(app: Any) -> None:
    """Close the sockets of an app: ``app.close()`` leaves that to a garbage collection."""
    backend = app._backend  # kombu's pools are shared by all apps of one address
    consumer = getattr(backend, "result_consumer", None)
    if getattr(consumer, "_pubsub", None) is not None:
        consumer._pubsub.close()
        consumer._pubsub = None  # results that are collected later must not connect again
    pool = getattr(vars(backend).get("client"), "connection_pool", None) if backend is not None else None
    if pool is not None:
        pool.disconnect()


@pytest.fixture(autouse=True)
def same_logging() -> Iterator[None]:
    """Undo what a test has made of the root logger: a worker that starts here sets it up."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def worker(valkey_server: PrivateValkey, valkey: Redis, tmp_path: Path) -> Iterator[StartWorker]:
    """Start real workers; all are killed at the end of the test (a warm stop would cost a second each).

    ``worker("apps.plain", queues=None, concurrency=2, pool="prefork", env=None)`` starts a node and
    waits until it is ready. ``server`` is another :class:`PrivateValkey` than the session's;
    ``start=False`` only prepares it. Send tasks through ``worker(...).app`` or ``.module``.
    """
    started: list[CeleryWorker] = []

    def make(
        app_module: str,
        *,
        env: Mapping[str, str] | None = None,
        server: PrivateValkey | None = None,
        start: bool = True,
        **options: Any,
    ) -> CeleryWorker:
        url = (server or valkey_server).url
        addresses = {"DENYUT_REDIS_URL": url, "CELERY_BROKER_URL": url, "CELERY_RESULT_BACKEND": url}
        node = CeleryWorker(app_module, tmp_path, env={**addresses, **(env or {})}, **options)
        started.append(node)
        return node.start() if start else node

    yield make
    for node in started:
        node.kill_all()
