"""The app of the soak: one task that does nothing, remembered for a short time."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from denyut import Denyut


def make_app(url: str, retention: float) -> Any:
    """Return the app. Its results live as long as its records."""
    app = Celery("soak", set_as_current=False)
    app.conf.update(
        broker_url=url,
        result_backend=url,
        result_expires=round(retention),
        task_default_queue="soak",
        worker_prefetch_multiplier=16,
        denyut_retention=retention,
    )
    Denyut(app)

    @app.task(name="soak.nothing", shared=False)  # type: ignore[untyped-decorator]
    def nothing() -> None:
        """Do nothing."""

    app.finalize()
    return app


if "SOAK_RETENTION" in os.environ:
    app = make_app(os.environ["CELERY_BROKER_URL"], float(os.environ["SOAK_RETENTION"]))
