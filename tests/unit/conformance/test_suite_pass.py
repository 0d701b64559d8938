"""A pass that broke off can go on where it was."""

from __future__ import annotations

import pytest
import suite_pass
from suite_environment import SuiteEnvironment
from suite_pass import Pass, run_pass
from suite_report import ModuleReport

MODULES = ("t/integration/test_a.py", "t/integration/test_b.py")


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Run no suite: note which modules would be run."""
    ran = []

    class Runner:
        output = tmp_path / "output.txt"

        def __init__(self, *_, **__):
            self.output.write_text("said")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def modules(self):
            return MODULES

        def run(self, module):
            ran.append(module)
            return ModuleReport(seconds=1.0, claims=2)

    monkeypatch.setattr(suite_pass, "SuiteRunner", Runner)
    monkeypatch.setattr(suite_pass, "CACHE", tmp_path)
    monkeypatch.setattr(SuiteEnvironment, "versions", lambda _: {"celery": "5"})
    return ran


def test_a_pass_runs_every_module_and_is_kept(ran, tmp_path):
    run_pass(SuiteEnvironment("oldest", tmp_path), denyut=True, say=lambda _: None)
    assert tuple(ran) == MODULES
    kept = Pass.load("oldest", denyut=True)
    assert tuple(kept.modules) == MODULES
    assert kept.claims == 4


def test_a_pass_that_broke_off_goes_on(ran, tmp_path):
    environment = SuiteEnvironment("oldest", tmp_path)
    run_pass(environment, denyut=True, only=["test_a"], say=lambda _: None)
    again = run_pass(environment, denyut=True, resume=True, say=lambda _: None)
    assert tuple(ran) == MODULES
    assert tuple(again.modules) == MODULES
    run_pass(environment, denyut=True, say=lambda _: None)
    assert tuple(ran) == MODULES * 2
