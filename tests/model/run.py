"""`make model`: the model for long, with fresh seeds, then its mutants, then what was exercised.

    python tests/model/run.py [--minutes 5] [--seed N] [--examples 200] [--steps 50] [--only-mutants]

It fails if an example breaks a promise (and prints its steps), if a mutant is not found, and if a script or
a rule was never played. Replies that a script's head documents, and transitions of denyut/states.py, that
this run has not seen are listed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from secrets import randbelow

sys.path.insert(0, str(Path(__file__).parents[1]))

from model.coverage import never_played, never_seen, report
from model.mutants import MUTANTS
from model.oracle import COVERAGE
from model.play import finds, own_server, play
from redis import Redis

#: Examples within which a mutant must be found.
MUTANT_EXAMPLES = 3000
#: Always the same examples: whether a defect is found must not depend on the day.
MUTANT_SEED = 3


def main() -> int:
    """Run; returns the exit code."""
    options = _options()
    logging.disable(logging.CRITICAL)  # thousands of jobs die here
    with own_server() as redis:
        if not options.only_mutants:
            _play_for(redis, options)
        lines, rare, missing = report(), never_seen(), never_played()
        survivors = _hunt_mutants(redis, MUTANT_SEED)
    if options.only_mutants:
        lines, rare, missing = "", [], []
    print("\n".join([lines, *(f"not seen: {line}" for line in rare)]))
    for line in [*missing, *(f"mutant not found: {name}" for name in survivors)]:
        print(f"FAILED: {line}")
    return 1 if missing or survivors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the machine runs (default 5)")
    parser.add_argument("--seed", type=int, default=randbelow(10**6), help="the first seed (default: random)")
    parser.add_argument("--examples", type=int, default=200, help="examples of one seed")
    parser.add_argument("--steps", type=int, default=50, help="most steps of one example")
    parser.add_argument("--only-mutants", action="store_true", help="only look whether mutants are found")
    return parser.parse_args()


def _play_for(redis: Redis, options: argparse.Namespace) -> None:
    end, number = time.monotonic() + options.minutes * 60, options.seed
    while time.monotonic() < end:
        began = COVERAGE.rules.total()
        print(f"seed {number}: ", end="", flush=True)
        play(redis, number=number, examples=options.examples, steps=options.steps)
        print(f"{options.examples} examples, {COVERAGE.rules.total() - began} steps, all promises kept")
        number += 1


def _hunt_mutants(redis: Redis, number: int) -> list[str]:
    survivors = []
    for name, mutant in MUTANTS.items():
        if mutant.elsewhere:
            print(f"mutant {mutant.script}.lua, {name}: found by {mutant.elsewhere}")
            continue
        began = time.monotonic()
        found = finds(redis, name, number=number, examples=MUTANT_EXAMPLES)
        took = time.monotonic() - began
        print(f"mutant {mutant.script}.lua, {name}: {'found' if found else 'NOT FOUND'} in {took:.1f} s")
        if not found:
            survivors.append(name)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
