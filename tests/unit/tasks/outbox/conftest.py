"""A bench whose app has an outbox, in a database of its own; relays as a worker has them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, text

from denyut.database.outbox import metadata, outbox
from denyut.tasks.outbox.places import places
from denyut.tasks.outbox.relay import Relay


class Post:
    """An app with an outbox, a table of the application beside it, and its relay."""

    def __init__(self, bench: Any, url: str) -> None:
        self.bench = bench
        self.pulse = bench.pulse
        self.outbox = bench.pulse.outbox
        self.client = bench.pulse.store.client
        self.engine = create_engine(url)
        metadata().create_all(self.engine)
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (n INTEGER UNIQUE)"))
        self.relay = self.another_relay()
        self.ran: list[Any] = []

        @bench.task(name="t.note")
        def note(what: Any = None) -> Any:
            self.ran.append(what)
            return what

        self.note = note

    def another_relay(self) -> Relay:
        return Relay(self.pulse, places(self.pulse)[0])

    def rows(self) -> list[Any]:
        """The rows of the outbox, in their order."""
        with self.engine.connect() as connection:
            return list(connection.execute(outbox().select().order_by(outbox().c.seq)))

    def orders(self) -> list[int]:
        with self.engine.connect() as connection:
            return [row[0] for row in connection.execute(text("SELECT n FROM orders ORDER BY n"))]

    def change(self, seq: int, **values: Any) -> None:
        """Change a row by hand."""
        with self.engine.begin() as connection:
            connection.execute(outbox().update().where(outbox().c.seq == seq).values(**values))

    def relay_all(self) -> int:
        """Relay what is there; returns how many rows there were."""
        count = 0
        while found := self.relay.look():
            count += found
        return count

    def deliver(self) -> list[Any]:
        """Relay what is there, and run it; returns what ran."""
        self.relay_all()
        self.bench.drain()
        return self.ran

    def close(self) -> None:
        self.relay.close()
        self.outbox.close()
        self.engine.dispose()


@pytest.fixture
def make_post(make_bench, tmp_path):
    made: list[Post] = []

    def make(url: str | None = None, **conf: Any) -> Post:
        url = url or f"sqlite:///{tmp_path / 'app.db'}"
        made.append(Post(make_bench(**{"denyut_outbox_url": url, **conf}), url))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=["postgresql", "sqlite"])
def post(request, make_post) -> Post:
    """On each database that can have an outbox."""
    return make_post(request.getfixturevalue("postgres") if request.param == "postgresql" else None)


@pytest.fixture
def lite(make_post) -> Post:
    """On SQLite, where the database makes no difference."""
    return make_post()
