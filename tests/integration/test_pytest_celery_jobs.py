"""Denyut on pytest-celery's setup: its stock tasks are jobs, without a change to them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from celery import Celery, chain, chord
from nodes.containers import WorkerContainer
from pytest_celery import CeleryTestSetup
from pytest_celery.vendors.worker.tasks import add, identity, sleep, xsum
from support import wait_until

from denyut import Denyut
from denyut.monitoring.jobs import Jobs


class JobWorkerContainer(WorkerContainer):
    """A worker whose app has Denyut."""

    @classmethod
    def app_module(cls) -> ModuleType:
        from apps import cluster  # here: it makes an app, which becomes the current one

        return cluster


@pytest.fixture
def default_worker_container_cls() -> type[JobWorkerContainer]:
    return JobWorkerContainer


@pytest.fixture
def celery_setup_app(celery_setup_app: Celery) -> Celery:
    celery_setup_app.conf.denyut_lease_ttl = 2.0
    return celery_setup_app


@pytest.fixture
def jobs(celery_setup: CeleryTestSetup) -> Iterator[Jobs]:
    """Reading jobs. Denyut comes to the client when the setup is made: the worker's app is written from
    the settings of the client's, and Denyut's routes are objects."""
    pulse = Denyut(celery_setup.app)
    yield pulse.jobs
    pulse.store.close()


def test_a_chain_and_a_chord_of_stock_tasks_run_as_jobs(celery_setup: CeleryTestSetup, jobs: Jobs):
    queue = celery_setup.worker.worker_queue
    result = chain(add.s(1, 2).set(queue=queue), add.s(3).set(queue=queue)).apply_async()
    assert result.get(timeout=20) == 6
    wait_until(lambda: jobs.get(result.id, fresh=True).state == "COMPLETED", what="the record to be closed")
    body = chord([identity.si(i).set(queue=queue) for i in range(5)], xsum.s().set(queue=queue))
    assert body.apply_async().get(timeout=20) == 10


def test_a_job_of_a_killed_worker_runs_again_when_the_worker_is_back(
    celery_setup: CeleryTestSetup, jobs: Jobs
):
    worker = celery_setup.worker
    result = sleep.s(1).apply_async(queue=worker.worker_queue)
    wait_until(lambda: jobs.get(result.id, fresh=True).state == "RUNNING", what="the job to run")
    worker.kill()
    worker.restart()
    assert result.get(timeout=30) is True
