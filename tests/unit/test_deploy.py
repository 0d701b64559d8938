"""What deploy/ says is what the code does."""

from __future__ import annotations

import re
import shlex
from configparser import ConfigParser
from pathlib import Path

import pytest
from celery.bin.celery import celery
from click.testing import CliRunner

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def section(unit: Path) -> dict[str, str]:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(unit)
    return dict(parser["Service"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.name)
def test_every_unit_starts_a_command_that_exists_with_options_that_it_knows(unit):
    program, _, app, *command = shlex.split(section(unit)["ExecStart"].replace("%%", "%"))
    assert program.endswith("/celery")
    assert app == "${DENYUT_APP}"
    shown = CliRunner().invoke(celery, [*command, "--help"])
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.name)
def test_a_stop_lets_running_jobs_end(unit):
    service = section(unit)
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) >= 60


def test_the_environment_forbids_the_embedded_server():
    assert "DENYUT_ENV=production" in (DEPLOY / "systemd" / "denyut.env").read_text().splitlines()


def alerts() -> dict[str, dict[str, str]]:
    """The rules of the alerts file, by name. It uses no more of YAML than this reads."""
    rules = re.split(
        r"^ {6}- alert: ", (DEPLOY / "prometheus" / "alerts.yml").read_text(), flags=re.MULTILINE
    )
    found = {}
    for rule in rules[1:]:
        name, *lines = rule.splitlines()
        found[name] = dict(re.findall(r"^ {8}(\w+):[ \n]*(.+)", "\n".join(lines), re.MULTILINE))
        assert all(re.match(r" {8,10}\w+: ?", line) for line in lines), "indented as YAML wants it"
    return found


def test_every_alert_has_an_expression_in_balance_and_says_what_is_wrong():
    assert {"DenyutDown", "DenyutDeadLetters", "DenyutJobsKillWorkers"} <= set(alerts())
    for name, rule in alerts().items():
        for opened, closed in ("()", "[]", "{}"):
            assert rule["expr"].count(opened) == rule["expr"].count(closed), name
        assert re.search(r"[<>=]=? [\d.]+$", rule["expr"]), "it compares with something"
        assert "summary: " in rule["annotations"], name


def test_every_metric_in_an_alert_is_exported():
    from denyut.monitoring import metrics

    source = Path(metrics.__file__).read_text()
    names = {name for rule in alerts().values() for name in re.findall(r"\bdenyut_\w+", rule["expr"])}
    assert len(names) > 5
    for name in names:
        assert f'"{name.removesuffix("_total")}"' in source, name
