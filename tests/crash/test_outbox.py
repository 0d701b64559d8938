"""SIGKILL at each step of commit and relay: what was committed is shipped, once, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from nodes.worker import _PATH
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool
from support import die_with_parent, wait_until

from denyut.database.outbox import metadata, outbox


class Shop:
    """A database with orders, what was shipped of them, and an outbox; and the processes of the shop."""

    def __init__(self, url: str, worker) -> None:
        self.url = url
        self._worker = worker
        self.env: dict[str, str] = {}
        options = {"timeout": 20.0} if url.startswith("sqlite") else {}
        self.engine = create_engine(url, poolclass=NullPool, connect_args=options)
        metadata().create_all(self.engine)
        with self.engine.begin() as connection:
            if url.startswith("sqlite"):
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")  # many processes write
            connection.execute(text("CREATE TABLE orders (n INTEGER UNIQUE)"))
            connection.execute(text("CREATE TABLE shipped (n INTEGER)"))

    def worker(self, point: str = "", *, relays: bool = True, **options):
        env = {"OUTBOX_URL": self.url, "OUTBOX_KILL": point, "OUTBOX_RELAY": "1" if relays else ""}
        node = self._worker("apps.posting", env=env, **options)
        self.env = {**os.environ, "PYTHONPATH": _PATH, **node.env, "OUTBOX_KILL": "", "OUTBOX_RELAY": "1"}
        return node

    def producer(self, first: int, last: int, point: str = "") -> subprocess.Popen[bytes]:
        """Start a process that takes the orders from ``first`` to below ``last``."""
        return subprocess.Popen(
            [sys.executable, "-m", "apps.posting", str(first), str(last)],
            env={**self.env, "OUTBOX_KILL": point},
            stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )

    def all(self, table: str) -> list[int]:
        with self.engine.connect() as connection:
            return sorted(connection.execute(text(f"SELECT n FROM {table}")).scalars())

    def rows(self) -> int:
        with self.engine.connect() as connection:
            return len(connection.execute(outbox().select()).all())

    def settle(self) -> None:
        """Wait until all that was ordered is shipped; each once, and nothing else."""
        wait_until(lambda: set(self.all("orders")) <= set(self.all("shipped")), 60, "orders to be shipped")
        wait_until(lambda: self.rows() == 0, 30, "the outbox to be empty")
        assert self.all("shipped") == self.all("orders")


@pytest.fixture(params=["postgresql", "sqlite"])
def shop(request, worker, tmp_path):
    lite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'shop.db'}" if lite else request.getfixturevalue("postgres")
    return Shop(url, worker)


def test_a_producer_that_is_killed_at_any_step_has_enqueued_what_it_has_committed(shop):
    shop.worker()
    points = ["before write", "after write", "before commit", "before poke", "after poke", "after commit"]
    for number, point in enumerate(points):
        assert shop.producer(number, number + 1, point).wait(30) == -signal.SIGKILL, point
    assert shop.producer(10, 11).wait(30) == 0
    assert shop.all("orders") == [3, 4, 5, 10]
    shop.settle()


#: It has taken rows; published their jobs; marked them; deleted the rows; committed; forgotten the marks.
RELAY_POINTS = [
    "after take",
    "after deliver",
    "after remember",
    "after drop",
    "before forget",
    "after forget",
]


@pytest.mark.parametrize("point", RELAY_POINTS)
def test_a_relay_that_is_killed_at_any_step_is_taken_over_and_nothing_is_shipped_twice(shop, point):
    dying = shop.worker(point, queues=["elsewhere"], concurrency=1)
    wait_until(lambda: b":relay:" in b"".join(dying.app.denyut.store.client.keys("*:relay:*")))
    other = shop.worker(concurrency=1)
    for number in range(3):
        other.module.sell(number)
    assert dying.wait(30) == -signal.SIGKILL
    shop.settle()
    other.app.denyut.outbox.close()


@pytest.mark.slow
def test_under_kills_at_random_moments_what_was_committed_is_shipped_once(shop):
    draw = Random(7)
    # It ships, and is not killed: a shipment is no transaction with its job.
    shop.worker(relays=False, concurrency=1)
    relays = [shop.worker(queues=["elsewhere"], concurrency=1)]
    first, kills = 0, Counter()
    while kills["relay"] < 4:
        producers = [shop.producer(start, start + 400) for start in (first, first + 400)]
        first += 800
        for each in producers:
            before = len(shop.all("orders"))
            wait_until(lambda before=before: len(shop.all("orders")) > before, 30, "orders to be taken")
            try:
                each.wait(draw.uniform(0.2, 1.0))
            except subprocess.TimeoutExpired:
                each.send_signal(signal.SIGKILL)
                each.wait()
                kills["producer"] += 1
        relays.pop().kill_all()
        kills["relay"] += 1
        relays.append(shop.worker(queues=["elsewhere"], concurrency=1))
    shop.settle()
    assert kills["producer"] >= 4
    assert len(shop.all("orders")) > 50
