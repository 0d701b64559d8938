from __future__ import annotations

import os
import sys

import pytest
from stage import Stage, StageError, answers, free_port
from support import is_running, wait_until


@pytest.fixture
def stage(tmp_path):
    with Stage(tmp_path, os.environ) as stage:
        yield stage


def python(code):
    return [sys.executable, "-c", code]


def test_a_part_is_ready_when_it_says_so(stage):
    part = stage.start("part", python("print('ready', flush=True); import time; time.sleep(60)"))
    stage.wait(part, lambda: part.said("ready"), timeout=20)


def test_a_part_that_ends_by_itself_is_an_error_with_the_end_of_its_log(stage):
    part = stage.start("part", python("print('why it could not', flush=True); raise SystemExit(3)"))
    with pytest.raises(StageError, match=r"(?s)part ended by itself \(exit code 3\).*why it could not"):
        stage.wait(part, lambda: False, timeout=20)


def test_a_part_that_is_not_ready_in_time_is_an_error_with_the_end_of_its_log(stage):
    part = stage.start("part", python("print('still busy', flush=True); import time; time.sleep(60)"))
    stage.wait(part, lambda: part.said("busy"), timeout=20)
    with pytest.raises(StageError, match=r"(?s)part was not ready after 0.1 s.*still busy"):
        stage.wait(part, lambda: False, timeout=0.1)


def test_a_part_that_was_killed_on_purpose_is_no_error(stage):
    part = stage.start("part", python("import time; time.sleep(60)"))
    stage.kill(part)
    assert part.process.returncode == -9
    stage.check()


def test_a_part_that_is_started_again_has_the_same_log_and_says_ready_anew(stage):
    first = stage.start("part", python("print('ready', flush=True)"))
    wait_until(lambda: first.said("ready"), timeout=20)
    stage.kill(first)
    second = stage.start("part", python("import time; time.sleep(60)"))
    assert first.log == second.log
    assert not second.said("ready")


def test_who_is_spoken_to_answers_and_may_end(stage):
    part = stage.start("part", python("print(input()[::-1])"), talk=True)
    assert part.process.communicate("abc\n", timeout=20)[0] == "cba\n"
    stage.check()


def test_nobody_is_left_at_the_end_not_even_who_will_not_go(tmp_path):
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    with Stage(tmp_path, os.environ) as stage:
        part = stage.start("deaf", python(deaf))
        stage.wait(part, lambda: part.said("deaf"), timeout=20)
        other = stage.start("other", python("import time; time.sleep(60)"))
        stage.stop(patience=0.2)
    assert not is_running(part.process.pid)
    assert not is_running(other.process.pid)


def test_an_interrupt_that_was_lost_is_raised_at_the_next_look(stage):
    with pytest.raises(KeyboardInterrupt):
        stage.interrupt()
    with pytest.raises(KeyboardInterrupt):
        stage.check()


def test_a_port_on_which_nobody_listens_does_not_answer():
    url = f"http://127.0.0.1:{free_port()}/"
    assert not answers(url)
