from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from support import wait_until

from denyut.errors import ConfigurationError, InvalidEvent, InvalidStream, RecorderClosed
from denyut.median.columns import Columns
from denyut.median.recorder import Recorder


class Outbox:
    """Stands for ``pulse.median``, to see what is sent and when; the broker is not what is tested here."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Columns]] = []
        self.broken = False
        self.tries = 0

    def send(self, stream: str, columns: Columns) -> None:
        self.tries += 1
        if self.broken:
            raise ConnectionError("the broker is away")
        self.sent.append((stream, columns))

    def ids(self) -> list[str]:
        return [event_id.decode() for _, columns in self.sent for event_id in columns.ids]


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def make(outbox: Outbox) -> Any:
    made: list[Recorder] = []

    def recorder(batch: int = 3, flush_ms: float = 60_000) -> Recorder:
        made.append(Recorder(outbox, batch=batch, flush_ms=flush_ms))  # type: ignore[arg-type]
        return made[-1]

    yield recorder
    outbox.broken = False
    for each in made:
        each.close()


def test_a_full_batch_of_one_stream_is_sent_at_once(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=3)
    for i in range(2):
        recorder.record("a", i, event_id=f"a{i}")
        recorder.record("b", i, event_id=f"b{i}")
    assert outbox.sent == []
    recorder.record("a", 2, event_id="a2", at=5)
    ((stream, columns),) = outbox.sent
    assert (stream, columns.values, columns.ids) == ("a", [0.0, 1.0, 2.0], [b"a0", b"a1", b"a2"])
    assert repr(columns.at) == "[nan, nan, 5.0]"
    assert recorder.pending == 2


def test_what_waits_too_long_is_sent_in_the_background(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=100, flush_ms=5)
    recorder.record("a", 1, event_id="x")
    wait_until(lambda: outbox.sent, what="the background flush")
    wait_until(lambda: recorder.pending == 0)
    recorder.record("a", 1, event_id="y")
    wait_until(lambda: outbox.ids() == ["x", "y"])
    assert outbox.sent[0][1].at is None


def test_flush_sends_everything_and_counts_it(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=10)
    for i in range(7):
        recorder.record(f"s{i % 2}", i, event_id=f"{i}")
    assert recorder.flush() == 7
    assert recorder.flush() == 0
    assert sorted(outbox.ids()) == [str(i) for i in range(7)]


def test_leaving_the_context_sends_the_rest_and_closes(outbox: Outbox) -> None:
    with Recorder(outbox, batch=10) as recorder:  # type: ignore[arg-type]
        recorder.record("s", 1, event_id="x")
    assert outbox.ids() == ["x"]
    with pytest.raises(RecorderClosed, match="was not kept"):
        recorder.record("s", 1, event_id="y")
    recorder.close()
    assert not [t for t in threading.enumerate() if t.name == "denyut-recorder"]


def test_a_bad_event_is_refused_at_once_and_not_kept(make: Any) -> None:
    recorder = make()
    with pytest.raises(InvalidEvent, match="not a number"):
        recorder.record("s", "x", event_id="a")
    with pytest.raises(InvalidStream, match="1 to 200"):
        recorder.record("", 1, event_id="a")
    assert recorder.pending == 0


def test_a_failed_flush_keeps_the_events_and_raises(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=2)
    recorder.record("s", 1, event_id="a")
    outbox.broken = True
    with pytest.raises(ConnectionError):
        recorder.record("s", 2, event_id="b")
    with pytest.raises(ConnectionError):
        recorder.flush()
    with pytest.raises(ConnectionError):
        recorder.close()
    assert recorder.pending == 2
    outbox.broken = False
    recorder.close()
    assert outbox.ids() == ["a", "b"]


def test_a_failure_in_the_background_is_raised_at_the_next_call_and_tried_again(
    make: Any, outbox: Outbox
) -> None:
    recorder = make(batch=10, flush_ms=5)
    outbox.broken = True
    recorder.record("s", 1, event_id="a")
    wait_until(lambda: outbox.tries > 1, what="a second try")
    with pytest.raises(ConnectionError, match="broker is away") as raised:
        recorder.record("s", 2, event_id="b")
    assert "1 recorded event(s) are kept" in raised.value.__notes__[-1]
    outbox.broken = False
    wait_until(lambda: outbox.ids() == ["a"], what="the kept event to be sent")
    wait_until(lambda: recorder.pending == 0)
    recorder.record("s", 2, event_id="b")


def test_a_flush_that_works_again_forgets_the_background_failure(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=10, flush_ms=5)
    outbox.broken = True
    recorder.record("s", 1, event_id="a")
    wait_until(lambda: outbox.tries > 0)
    outbox.broken = False
    recorder.close()
    assert outbox.ids() == ["a"]


def test_while_the_broker_is_away_a_bounded_number_of_events_is_kept(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=2)
    outbox.broken = True
    for i in range(500):
        with pytest.raises(ConnectionError) if i else pytest.MonkeyPatch.context():
            recorder.record("s", i, event_id=f"{i}")
    assert recorder.pending == 200
    outbox.broken = False
    recorder.flush()
    assert outbox.ids() == [f"{i}" for i in range(200)]


def test_many_threads_lose_and_double_nothing(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=7, flush_ms=1)

    def work(n: int) -> None:
        for i in range(400):
            recorder.record(f"s{i % 3}", i, event_id=f"{n}-{i}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    assert sorted(outbox.ids()) == sorted(f"{n}-{i}" for n in range(4) for i in range(400))
    assert all(len(columns) <= 7 for _, columns in outbox.sent)


def test_a_forked_child_begins_empty_and_works(make: Any, outbox: Outbox) -> None:
    recorder = make(batch=100)
    recorder.record("s", 1, event_id="parents")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        recorder.record("s", 2, event_id="childs")
        recorder.close()
        os.write(write, ",".join(outbox.ids()).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 100) == b"childs"
    os.close(read)
    os.close(write)
    recorder.flush()
    assert outbox.ids() == ["parents"]


def test_the_exit_of_the_process_sends_what_is_left() -> None:
    code = """
from denyut.median.recorder import Recorder
class Outbox:
    def send(self, stream, columns): print(stream, columns.ids)
Recorder(Outbox(), batch=9).record("s", 1, event_id="a")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "s [b'a']\n"


def test_the_exit_of_the_process_says_what_could_not_be_sent() -> None:
    code = """
from denyut.median.recorder import Recorder
class Outbox:
    def send(self, stream, columns): raise ConnectionError("away")
Recorder(Outbox(), batch=9).record("s", 1, event_id="a")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "this process ends and 1 event(s) were never sent" in done.stderr
    assert "ConnectionError: away" in done.stderr


@pytest.mark.parametrize("flush_ms", [0, -5, 1e9, "200", True, None, float("nan")])
def test_a_wait_that_is_no_time_is_refused(outbox: Outbox, flush_ms: Any) -> None:
    with pytest.raises(ConfigurationError, match="flush_ms="):
        Recorder(outbox, batch=3, flush_ms=flush_ms)  # type: ignore[arg-type]


def test_the_recorder_of_an_app_sends_batches_of_the_setting(pulse: Any) -> None:
    from unit.median.median_stream import drain

    made = pulse(denyut_median_batch=4)
    with made.median.recorder(flush_ms=60_000) as recorder:
        for i in range(10):
            recorder.record("s", i, event_id=f"{i}")
        assert recorder.pending == 2
    assert drain(made) == 3
    assert made.median.read("s").value == 4.5
