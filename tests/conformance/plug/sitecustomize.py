"""Runs at the start of every Python process of a pass: makes every task of every app a job.

``SUITE_WITH_DENYUT=1`` decides, so that a stock pass differs in nothing else.
"""

from __future__ import annotations

import os
from typing import Any


def _use_denyut() -> None:
    from celery.app.base import Celery

    plain = Celery.__init__

    def with_denyut(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        from denyut import Denyut

        Denyut(self)

    Celery.__init__ = with_denyut


if os.environ.get("SUITE_WITH_DENYUT") == "1":
    _use_denyut()
