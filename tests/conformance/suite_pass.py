"""One pass: every module of the suite of one Celery, stock or with Denyut; kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from suite_environment import CACHE, SuiteEnvironment
from suite_process import SuiteRunner
from suite_report import GOOD, ModuleReport, TestResult

__all__ = ["Pass", "run_pass"]


@dataclass
class Pass:
    """What one pass found. ``alone``: outcomes of tests that were run again, each in its own process."""

    celery: str
    denyut: bool
    versions: dict[str, str]
    modules: dict[str, ModuleReport] = field(default_factory=dict)
    alone: dict[str, list[str]] = field(default_factory=dict)

    @property
    def claims(self) -> int:
        """Attempts that were claimed: 0 if no task was a job."""
        return sum(module.claims for module in self.modules.values())

    def result(self, test: str) -> TestResult | None:
        """Return how ``test`` went in the pass, or None if it was not there."""
        return self.modules.get(test.partition("::")[0], ModuleReport()).results.get(test)

    def bad(self) -> list[str]:
        """Return the tests that did not go as the suite expects."""
        results = [item for module in self.modules.values() for item in module.results.items()]
        return [test for test, result in results if result.outcome not in GOOD]

    def save(self) -> None:
        """Keep the pass."""
        path = _path(self.celery, denyut=self.denyut)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, celery: str, *, denyut: bool) -> Pass | None:
        """Return the pass that was kept, or None."""
        path = _path(celery, denyut=denyut)
        if not path.exists():
            return None
        data = json.loads(path.read_text())
        for module in data["modules"].values():
            module["results"] = {test: TestResult(**result) for test, result in module["results"].items()}
        data["modules"] = {name: ModuleReport(**module) for name, module in data["modules"].items()}
        return cls(**data)


def run_pass(
    environment: SuiteEnvironment,
    *,
    denyut: bool,
    only: Sequence[str] = (),
    resume: bool = False,
    say: Callable[[str], None] = print,
) -> Pass:
    """Run the suite once and keep what came out.

    Args:
        environment: one prepared Celery.
        denyut: whether its tasks are jobs.
        only: names of modules, such as ``test_tasks``; all if empty.
        resume: go on with the pass that was kept: its modules are not run again.
        say: called with a line about each module.
    """
    kept = Pass.load(environment.name, denyut=denyut) if resume else None
    done = kept or Pass(environment.name, denyut, environment.versions())
    with SuiteRunner(environment, denyut=denyut) as runner:
        for module in runner.modules():
            if module in done.modules or (only and Path(module).stem not in only):
                continue
            report = done.modules[module] = runner.run(module)
            say(f"{'denyut' if denyut else 'stock'} {done.versions['celery']} {_line(module, report)}")
            _keep_output(runner.output, done, module)
            done.save()
    return done


def _line(module: str, report: ModuleReport) -> str:
    counts = {outcome: report.count(outcome) for outcome in sorted(GOOD | {"failed", "unfinished"})}
    told = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    return f"{module}: {told or report.uncollected} ({report.seconds:.0f} s, {report.claims} claims)"


def _keep_output(output: Path, done: Pass, module: str) -> None:
    folder = _path(done.celery, denyut=done.denyut).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{Path(module).stem}.txt").write_bytes(output.read_bytes())


def _path(celery: str, *, denyut: bool) -> Path:
    return CACHE / "results" / f"{celery}-{'denyut' if denyut else 'stock'}.json"
