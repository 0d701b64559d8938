"""The Celery configuration that Denyut recommends: every value that is not Celery's default, and why.

Used as it is for apps without any configuration (the embedded default) and in ``deploy/``; ready for
``app.config_from_object("denyut.celeryconfig")``. Addresses come from the environment:
``DENYUT_REDIS_URL`` for everything, ``CELERY_BROKER_URL`` and ``CELERY_RESULT_BACKEND`` (which Celery
reads by itself) for broker and results alone. Denyut's own settings keep their defaults.

Left at Celery's default on purpose:

- ``task_acks_late`` and ``task_reject_on_worker_lost`` are off: a lost job is published again from its
  record, within seconds; a late-acked message would add copies after the visibility timeout, and a
  rejected one a loop without a budget.
- ``visibility_timeout`` stays an hour: it decides nothing. A lost job is back long before it, and the
  copy of a running one steps aside.
- ``task_track_started`` is off: the record says RUNNING, one write a job less.
- ``worker_cancel_long_running_tasks_on_connection_loss`` is off: a lost broker connection is no lost
  lease; who lost the lease is told so by the fence.
"""

from __future__ import annotations

import os as _os

from denyut.urls import for_celery as _for_celery

if _url := _os.environ.get("DENYUT_REDIS_URL"):
    broker_url = _for_celery(_url)
    result_backend = broker_url

# JSON only (the default, pinned): unpickling a message runs code of whoever can write to the broker.
accept_content = ["json"]

# A job that waits in a busy worker's memory could have been run by an idle one.
worker_prefetch_multiplier = 1

# Workers may start before their broker does, and outlive any outage of it (default: give up after 100).
broker_connection_retry_on_startup = True
broker_connection_max_retries = None

# A peer that vanished without a word (power cut, firewall) is noticed by the kernel, not by the next job.
broker_transport_options = {"socket_keepalive": True, "socket_connect_timeout": 5.0}
redis_backend_health_check_interval = 25

# Results last as long as the record of the job does (denyut_retention).
result_expires = 3600

# Flower shows what it hears: tasks as they are sent, received, started and ended.
worker_send_task_events = True
task_send_sent_event = True
