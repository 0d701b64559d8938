"""``denyut jobs explain``."""

from __future__ import annotations

import json


def test_a_story_is_printed_line_by_line(desk, cli):
    desk.running("j", 3, owner="w@h|ab", pid=5)
    result = cli("jobs", "explain", "j")
    assert result.exit_code == 0
    *events, verdict, coming = result.stdout.splitlines()
    assert "received from a client" in events[0]
    assert "attempt 1 began on w@h, pid 5" in events[1]
    assert verdict == "verdict: running"
    assert coming.startswith("next: it goes on")


def test_a_story_as_json(desk, cli):
    desk.ended("j", 3)
    data = json.loads(cli("jobs", "explain", "j", "--json").stdout)
    assert [event["kind"] for event in data["events"]] == ["adopted", "claimed", "completed"]


def test_an_unknown_job_is_explained_too_with_exit_code_1(cli):
    result = cli("jobs", "explain", "nobody")
    assert result.exit_code == 1
    assert result.stdout.startswith("verdict: unknown\nnext: nothing is known of such a job")
    assert json.loads(cli("jobs", "explain", "nobody", "--json").stdout)["verdict"] == "unknown"
