"""Apps that are alike but for ``Denyut(app)``, and for a job store: a task that does nothing."""

from __future__ import annotations

import os

from celery import Celery

from denyut import Denyut


def make_app(kind: str) -> Celery:
    """Return the app ``bare`` or ``denyut``, or one with a store, such as ``sqlite`` or ``sqlite-through``.

    Where broker, results and store are is read from the environment.
    """
    app = Celery(f"bench-{kind}", set_as_current=False)
    app.conf.update(task_default_queue=f"bench.{kind}", result_expires=300)
    if kind != "bare":
        app.conf.denyut_retention = 300.0
        database, _, through = kind.partition("-")
        if database != "denyut":
            app.conf.denyut_prefix = kind
            app.conf.denyut_database_url = os.environ[f"BENCH_{database.upper()}"]
            app.conf.denyut_store_writes = through or "behind"
        Denyut(app)

    @app.task(name="bench.nothing", shared=False)  # type: ignore[untyped-decorator]
    def nothing() -> None:
        """Do nothing."""

    @app.task(name="bench.number", shared=False)  # type: ignore[untyped-decorator]
    def number(n: int) -> None:
        """Do nothing with ``n``."""

    @app.task(  # type: ignore[untyped-decorator]
        name="bench.keyed", shared=False, idempotency_key="{n}", queue=f"bench.{kind}.nobody"
    )
    def keyed(n: int) -> None:
        """Be enqueued; nobody consumes this queue."""

    app.finalize()
    return app


app = make_app(os.environ.get("BENCH_KIND", "bare"))
