"""``make conformance``: Celery's own integration suite, stock and with Denyut, oldest and newest Celery.

    python tests/conformance/run.py [--celery newest oldest] [--sides stock denyut] [--resume] [--prepare]

A full run takes well over an hour. What each pass found is kept below ``.conformance/results`` as it
goes; a side that is not run again is taken from there. Exit status 1: a test fails with Denyut alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # nodes, support

from suite_compare import failures, look_again
from suite_environment import ROOT, SuiteEnvironment
from suite_page import page
from suite_pass import Pass, run_pass
from suite_process import SuiteRunner

NOTES = Path(__file__).parent / "notes.json"


def main() -> int:
    """Run what was asked for, write the page, and return the exit status."""
    options = _options()
    environments = [SuiteEnvironment.prepare(name) for name in options.celery]
    if options.prepare:
        return 0
    passes = [_both(environment, options.sides, resume=options.resume) for environment in environments]
    told = [
        f"Celery {denyut.versions['celery']}: {why}"
        for stock, denyut in passes
        for why in failures(stock, denyut)
    ]
    notes = json.loads(NOTES.read_text(encoding="utf-8"))
    if len(passes) > 1:
        (ROOT / "docs" / "conformance.md").write_text(page(passes, notes), encoding="utf-8")
    print("\n".join(told) or "every test that passes for stock Celery passes with Denyut")
    return 1 if told else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    both = ["newest", "oldest"]
    parser.add_argument("--celery", nargs="+", choices=both, default=both, help="which Celery (both)")
    sides = ["stock", "denyut"]
    parser.add_argument("--sides", nargs="*", choices=sides, default=sides, help="what to run again (both)")
    parser.add_argument("--resume", action="store_true", help="go on where a pass of these sides broke off")
    parser.add_argument("--prepare", action="store_true", help="only install what a pass needs")
    return parser.parse_args()


def _both(environment: SuiteEnvironment, sides: list[str], *, resume: bool) -> tuple[Pass, Pass]:
    stock = _one(environment, denyut=False, again="stock" in sides, resume=resume)
    denyut = _one(environment, denyut=True, again="denyut" in sides, resume=resume)

    def alone(side: Pass, test: str) -> str:
        with SuiteRunner(environment, denyut=side.denyut) as runner:
            result = runner.run(test).results.get(test)
        outcome = result.outcome if result is not None else "absent"
        print(f"{'denyut' if side.denyut else 'stock'} {side.versions['celery']} {test} alone: {outcome}")
        return outcome

    look_again(stock, denyut, alone)
    return stock, denyut


def _one(environment: SuiteEnvironment, *, denyut: bool, again: bool, resume: bool) -> Pass:
    kept = None if again else Pass.load(environment.name, denyut=denyut)
    return kept if kept is not None else run_pass(environment, denyut=denyut, resume=resume)


if __name__ == "__main__":
    sys.exit(main())
