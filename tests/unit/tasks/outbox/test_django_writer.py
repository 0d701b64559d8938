"""In Django the job is enqueued if, and only if, the outermost ``atomic()`` commits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import django_project
import pytest
from sqlalchemy import create_engine

from denyut.database.outbox import metadata, outbox
from denyut.errors import ConfigurationError

django_project.configure()

ROOT = Path(__file__).parents[4]


class Shop:
    def __init__(self, connection, engine, post):
        self.connection = connection
        self.engine = engine
        self.post = post

    def enqueue(self, what, **options):
        return self.post.outbox.enqueue("shop", self.post.note.s(what), **options)


@pytest.fixture(params=["postgresql", "sqlite"])
def shop(request, make_post, tmp_path):
    lite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'shop.db'}" if lite else request.getfixturevalue("postgres")
    with django_project.database("shop", url) as connection:
        post = make_post(url, denyut_outbox_url="django://shop")
        yield Shop(connection, post.engine, post)


def test_an_atomic_block_that_commits_enqueues_the_job_once(shop):
    from django.db import transaction

    with transaction.atomic("shop"):
        shop.connection.cursor().execute("INSERT INTO orders (n) VALUES (1)")
        result = shop.enqueue(5)
        assert shop.post.deliver() == [], "nobody sees it yet"
    assert shop.post.deliver() == [5]
    assert result.get(timeout=5) == 5
    assert (shop.post.orders(), shop.post.rows()) == ([1], [])


def test_an_atomic_block_that_is_rolled_back_enqueues_nothing(shop):
    from django.db import transaction

    with transaction.atomic("shop"):
        shop.enqueue(5)
        transaction.set_rollback(True, "shop")
    assert (shop.post.deliver(), shop.post.rows()) == ([], [])


def test_of_nested_atomic_blocks_each_counts_by_itself(shop):
    from django.db import transaction

    with transaction.atomic("shop"):
        shop.enqueue("outer")
        with transaction.atomic("shop"):
            shop.enqueue("kept")
        with transaction.atomic("shop"):
            shop.enqueue("undone")
            transaction.set_rollback(True, "shop")
    assert shop.post.deliver() == ["outer", "kept"]


def test_without_an_atomic_block_it_is_committed_at_once(shop):
    shop.enqueue(1, idempotency_key="k", countdown=0)
    assert shop.post.deliver() == [1]


def test_the_relays_are_told_when_the_outermost_block_has_committed(shop):
    from django.db import transaction

    poke = shop.post.pulse.keys.relay_poke(shop.post.relay.place.name)
    with transaction.atomic("shop"):
        with transaction.atomic("shop"):
            shop.enqueue(1)
        assert not shop.post.client.exists(poke)
    assert shop.post.client.exists(poke)


def test_a_database_without_the_table_is_an_error_that_says_how_to_make_it(shop):
    outbox().drop(shop.engine)
    with pytest.raises(ConfigurationError, match=r"put 'denyut.contrib.django' into INSTALLED_APPS"):
        shop.enqueue(1)
    metadata().create_all(shop.engine)


def test_a_database_that_django_does_not_have_is_named_with_those_that_it_has(lite):
    with pytest.raises(ConfigurationError, match="no database 'nowhere'; DATABASES has default"):
        lite.outbox.enqueue("nowhere", lite.note.s())


def test_a_database_whose_outbox_no_worker_relays_is_refused(make_post, tmp_path):
    with django_project.database("shop", f"sqlite:///{tmp_path}/shop.db"):
        post = make_post(denyut_outbox_url="django://shop")
        with pytest.raises(ConfigurationError, match="names django://shop, and not django://default"):
            post.outbox.enqueue("default", post.note.s())


def test_it_is_written_by_one_statement_that_every_driver_knows(tmp_path):
    from denyut.database.outbox_put import put_text

    engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(KeyError):
        put_text("oracle", {})
    engine.dispose()


def test_an_alias_where_django_is_not_set_up_is_an_error_that_says_so():
    program = (
        "from denyut.tasks.outbox.django_writer import DjangoWriter\n"
        "try:\n    DjangoWriter('shop')\nexcept Exception as exc:\n    print(type(exc).__name__, exc)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    assert done.stdout.startswith("ConfigurationError 'shop' names one of Django's databases")
    assert "DJANGO_SETTINGS_MODULE" in done.stdout
