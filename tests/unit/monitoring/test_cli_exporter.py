"""``denyut exporter``; that it serves, and stops when told, is tested as a process."""

from __future__ import annotations

import json
import socket


def test_a_port_that_is_taken_is_one_line_and_exit_code_1(cli):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = cli("exporter", "--port", str(port))
    assert result.exit_code == 1
    assert result.stderr == f"Error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_what_is_no_port_is_exit_code_2(cli):
    assert cli("exporter", "--port", "70000").exit_code == 2
    assert cli("exporter", "--port", "http").exit_code == 2


def test_an_address_that_is_not_here_is_one_line(cli):
    result = cli("exporter", "--host", "192.0.2.1", "--port", "0")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_with_json_it_prints_all_metrics_once(cli):
    result = cli("exporter", "--json")
    assert result.exit_code == 0
    found = {sample["name"]: sample for sample in json.loads(result.stdout)}
    assert found["denyut_up"] == {"name": "denyut_up", "labels": {}, "value": 1}
    assert "state" in found["denyut_jobs_now"]["labels"]
