from __future__ import annotations

from threading import Event
from threading import enumerate as threads

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
