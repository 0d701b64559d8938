"""What goes from a pool process to the main process arrives there as it was."""

from __future__ import annotations

import pickle

import pytest
from celery.exceptions import Ignore

from denyut.tasks.aside import StepAside, Stopped


@pytest.mark.parametrize("told", [StepAside("DONE"), StepAside("y", keep=True), Stopped("z")])
def test_it_survives_the_way_and_is_what_celery_ignores(told):
    arrived = pickle.loads(pickle.dumps(told))
    assert type(arrived) is type(told)
    assert vars(arrived) == vars(told)
    assert isinstance(arrived, Ignore)
