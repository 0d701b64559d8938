"""The demo as a visitor runs it, on two months, with both kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from support import die_with_parent

DEMO = Path(__file__).parents[2] / "examples" / "flights" / "demo.py"


@pytest.fixture
def demo(tmp_path):
    """Start the demo; whatever it leaves behind is found by the leak detector."""
    started: list[subprocess.Popen[str]] = []

    def start(*options):
        environment = {**os.environ, "DENYUT_EMBEDDED": "1", "TMPDIR": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, str(DEMO), *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def printed_until(process, begin):
    """Return what the demo prints up to the first line that begins so."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(begin):
            return "".join(lines)
    pytest.fail(f"the demo ended without {begin!r}:\n{''.join(lines)}")


@pytest.mark.slow
def test_two_months_survive_both_kills_and_every_number_is_exact(demo, tmp_path):
    process = demo("--months", "2", "--keep")
    text = printed_until(process, "{")
    result = json.loads(text.splitlines()[-1])
    assert "\nPASS" in text
    assert result["ok"] is True
    assert (result["events"], result["streams"]) == (200_364, 38)
    assert result["duplicates"]["enqueue"] == 2
    assert result["duplicates"]["claim"] > 0
    assert result["duplicates"]["event"] > 0
    assert result["crashes"] == len(result["recovery_s"]) >= 2
    assert len(re.findall("SIGKILL to pool process", text)) >= 1
    assert len(re.findall("SIGKILL to worker", text)) >= 1
    assert re.search(r"attempt 2 runs on w\d@demo from its checkpoint", text)
    for name in ("Flower", "metrics"):
        address = re.search(rf"^{name} +(http\S+)$", text, re.MULTILINE)
        with urlopen(address[1], timeout=10) as response:
            assert response.status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert list(tmp_path.glob("denyut-demo-*")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_a_demo_that_is_ended_early_leaves_no_process_behind(demo, tmp_path, number, code):
    process = demo("--months", "1")
    printed_until(process, "   0.0 s")
    process.send_signal(number)
    assert process.wait(30) == code
    assert code < 0 or list(tmp_path.glob("denyut-demo-*")) == []


@pytest.mark.slow
def test_a_demo_that_takes_too_long_says_what_is_late_and_fails(demo):
    process = demo("--months", "1", "--timeout", "0.1")
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "The demo failed: w1 is not done 0.1 s after the start" in text
    assert "w1@demo ready." in text, "the end of its log"
