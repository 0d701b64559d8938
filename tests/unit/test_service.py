from __future__ import annotations

from threading import Event, Thread
from threading import enumerate as threads

from support import wait_until

from denyut.service import Service


class Counting(Service):
    thread_name = "denyut-counting"

    def __init__(self) -> None:
        super().__init__()
        self.runs, self.interrupts, self.begun = 0, 0, Event()

    def run(self) -> None:
        self.runs += 1
        self.begun.set()
        self.stopping.wait()

    def interrupt(self) -> None:
        self.interrupts += 1


def names() -> list[str]:
    return [thread.name for thread in threads()]


def test_it_starts_once_stops_and_starts_again():
    service = Counting()
    for run in (1, 2, 3):
        service.begun.clear()
        service.start()
        service.start()
        assert service.begun.wait(10)
        assert names().count("denyut-counting") == 1
        service.stop()
        assert "denyut-counting" not in names()
        assert (service.runs, service.interrupts) == (run, run)


def test_stopping_what_does_not_run_does_nothing():
    service = Counting()
    service.stop()
    service.start()
    assert service.begun.wait(10)
    service.stop()
    service.stop()
    assert service.interrupts == 1


def test_a_thread_that_has_died_is_started_again_and_one_that_was_stopped_is_not():
    class Mortal(Service):
        thread_name = "mortal"

        def __init__(self):
            super().__init__()
            self.lives = 0

        def run(self):
            self.lives += 1
            if self.lives > 1:
                self.stopping.wait()

        def interrupt(self):
            pass

    mortal = Mortal()
    assert not mortal.revive(), "it was never started"
    mortal.start()
    wait_until(mortal.revive, what="its death")
    wait_until(lambda: mortal.lives == 2, what="its second life")
    assert not mortal.revive()
    mortal.stop()
    assert not mortal.revive()


def test_one_that_is_being_started_is_not_taken_for_dead(monkeypatch):
    service = Counting()
    real, met = Thread.start, []

    def start(thread):
        if thread.name == "denyut-counting" and not met:
            watcher = Thread(target=lambda: met.append(service.revive()), daemon=True)
            real(watcher)
            watcher.join(0.2)  # it looks now, or when the thread has started
        real(thread)

    monkeypatch.setattr(Thread, "start", start)
    service.start()
    wait_until(lambda: met)
    assert met == [False]
    assert service.begun.wait(10)
    assert service.runs == 1
    service.stop()


def test_one_that_was_stopped_in_the_same_moment_is_not_revived():
    service = Counting()
    service.start()
    service.stop()
    service.begun.clear()
    assert not service.revive()
    assert service.stopping.is_set()
    service.start()
    assert service.begun.wait(10)
    service.stop()
