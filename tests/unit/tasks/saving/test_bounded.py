from __future__ import annotations

from threading import Event

import pytest
from support import wait_until

from denyut.tasks.saving.bounded import MOST, Bounded


@pytest.fixture
def bounded():
    made = Bounded("test-bounded")
    yield made
    made.close(5.0)


def fails() -> None:
    raise KeyError("no")


def test_an_answer_and_an_error_are_the_callers(bounded):
    assert bounded.do(lambda: 3, 5.0) == 3
    with pytest.raises(KeyError):
        bounded.do(fails, 5.0)
    assert bounded.do(lambda: 4, 5.0) == 4


def test_what_hangs_is_left_behind_and_others_go_on(bounded):
    gate = Event()
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        bounded.do(gate.wait, 0.05)
    assert bounded.do(lambda: 5, 5.0) == 5
    gate.set()


def test_only_few_are_left_behind(bounded):
    gate = Event()
    for _ in range(MOST):
        with pytest.raises(TimeoutError):
            bounded.do(gate.wait, 0.01)
    assert bounded.submit(lambda: 6) is None
    with pytest.raises(TimeoutError):
        bounded.do(lambda: 6, 5.0)
    gate.set()
    wait_until(lambda: bounded.submit(lambda: 6) is not None, 5, "those behind to end")


def test_what_was_given_up_may_be_done_later(bounded):
    gate, done = Event(), Event()
    with pytest.raises(TimeoutError):
        bounded.do(lambda: gate.wait() and done.set(), 0.01)
    gate.set()
    assert done.wait(5)
