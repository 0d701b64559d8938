"""The outbox on real workers: of each pool, and of a Django project."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from nodes.worker import _PATH
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool
from support import wait_until

from denyut.database.outbox_make import make_outbox


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres")
    return f"sqlite:///{tmp_path / 'shop.db'}"


def numbers(engine, table):
    with engine.connect() as connection:
        return sorted(connection.execute(text(f"SELECT n FROM {table}")).scalars())


@pytest.mark.parametrize("pool", ["solo", "threads", "gevent", "eventlet"])
def test_workers_of_every_pool_relay(worker, postgres, pool):
    engine = create_engine(postgres, poolclass=NullPool)
    make_outbox(engine)
    with engine.begin() as connection:
        for table in ("orders", "shipped"):
            connection.execute(text(f"CREATE TABLE {table} (n INTEGER)"))
    node = worker("apps.posting", env={"OUTBOX_URL": postgres}, pool=pool)
    for number in range(3):
        node.module.sell(number)
    wait_until(lambda: numbers(engine, "shipped") == [0, 1, 2], 20)
    node.app.denyut.outbox.close()
    node.stop()
    assert "Traceback" not in node.logs()


def test_a_django_project_ships_what_its_transactions_have_committed(worker, url):
    node = worker("apps.django_posting", env={"OUTBOX_URL": url}, start=False)
    env = {**os.environ, "PYTHONPATH": _PATH, **node.env}
    program = [sys.executable, "-m", "apps.django_posting"]
    subprocess.run([*program, "migrate"], env=env, check=True, timeout=60)
    node.start()
    subprocess.run([*program, "sell", "0", "10"], env=env, check=True, timeout=60)
    engine = create_engine(url, poolclass=NullPool)
    committed = [number for number in range(10) if number % 3]
    wait_until(lambda: numbers(engine, "shipped") == committed, 20)
    assert numbers(engine, "orders") == committed
