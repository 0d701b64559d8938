"""What the store was asked for in vain."""

from __future__ import annotations

import os
from threading import Thread

from denyut.states import State
from denyut.tasks.saving import absent
from denyut.tasks.saving.absent import Absent
from denyut.tasks.saving.gone import Gone

GONE = Gone(state=State.FAILED, finished_at=1, gone_at=2)


def test_an_answer_is_good_for_a_moment(monkeypatch):
    now = 100.0
    monkeypatch.setattr(absent, "monotonic", lambda: now)
    found = Absent(keep=5)
    found.add({"a": None, "b": GONE})
    assert found.known(["a", "b", "c"]) == {"a": None, "b": GONE}
    now = 105.0
    assert found.known(["a", "b"]) == {}


def test_only_so_many_answers_are_kept_the_newest(monkeypatch):
    found = Absent(most=3)
    for n in range(5):
        found.add({f"j{n}": None})
    found.add({"j2": None})
    found.add({"j5": None})
    assert set(found.known(f"j{n}" for n in range(6))) == {"j4", "j2", "j5"}


def test_what_is_there_now_is_asked_for_again():
    found = Absent()
    found.drop(["a"])
    found.add({"a": None, "b": None})
    found.drop(["a", "c"])
    assert set(found.known(["a", "b"])) == {"b"}


def test_a_child_forked_while_a_thread_held_the_lock_does_not_wait_for_it():
    found = Absent()
    found.add({"a": None})
    found._lock.acquire()
    pid = os.fork()
    if pid == 0:
        asked = Thread(target=lambda: found.known(["a"]))
        asked.daemon = True
        asked.start()
        asked.join(5)
        os._exit(1 if asked.is_alive() else 0)
    found._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
