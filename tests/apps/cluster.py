"""What pytest-celery makes the app of a worker from: it fills in the three lines below."""

from __future__ import annotations

from celery import Celery

from denyut import Denyut

imports = None

app = Celery("celery_test_app")
config = None

if config:
    app.config_from_object(config)
Denyut(app)
