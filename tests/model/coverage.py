"""What an hour of the model has exercised: rules, replies, transitions. What is never seen is not tested."""

from __future__ import annotations

from pathlib import Path

from model.machine import Protocol
from model.oracle import COVERAGE
from model.scripts import PROTOCOL, documented_codes

import denyut
from denyut.states import TRANSITIONS

_PACKAGE = Path(denyut.__file__).parent

#: Scripts that are no step of the protocol, and why.
NOT_MODELLED = {
    "worker": "what a worker says of itself; nothing is decided by it",
    "leave": "the same",
    "let_go": "why a lease is renewed no more; that it lapses is what the model plays",
    "watch_schedule": "who looks at the schedules; any number may, and the model lets any number",
    "note": "an entry in a job's story; nothing is decided by it",
    "restore": "after a loss of data; the machine leaves that out by default (Protocol.forgetful)",
    "add_part": "a count in Celery's result backend",
    "called": "a mark beside a part of the continuation; the model's continuation has one part",
    "again": "the id of a retry by hand; the new job itself is enqueued like any",
    "retried": "the same",
    "put_back": "after a loss of data, from the job store: tests/unit/tasks/saving",
    "saved": "what the job store has; the model plays without one",
    "supersede": "a second enqueue of a key with a policy: tests/unit/tasks/test_contest_oracle.py",
    "reindex": "after a loss of indexes, by hand: tests/unit/tasks/test_reindex.py",
}
#: Replies without a code: lists of what was found.
LISTS = {"overdue", "old_dead", "beat", "turn"}


def modelled() -> dict[str, set[str]]:
    """Return every script of the protocol and the codes that its head documents."""
    found: dict[str, set[str]] = {}
    for package in PROTOCOL:
        for path in sorted((_PACKAGE / package.split(".")[1] / "lua").glob("*.lua")):
            if path.stem not in NOT_MODELLED:
                found[path.stem] = set() if path.stem in LISTS else documented_codes(package, path.stem)
    return found


def never_played() -> list[str]:
    """Return the scripts and rules that were never played: the model is broken then."""
    return [line for line in never_seen() if line.startswith(("script ", "rule "))]


def never_seen() -> list[str]:
    """Return what is documented and was never seen: scripts, reply codes, transitions, rules.

    Some replies are rare, or need a record that Redis has lost: a run that did not see them says so.
    """
    seen: dict[str, set[str]] = {}
    for script, code in COVERAGE.replies:
        seen.setdefault(script, set()).add(code)
    missing = []
    for script, codes in modelled().items():
        if script not in seen:
            missing.append(f"script {script}.lua was never called")
        missing += [f"{script}.lua never answered {code}" for code in sorted(codes - seen.get(script, codes))]
    missing += [
        f"no job took the transition {event} in state {state}"
        for state, event in TRANSITIONS
        if not COVERAGE.transitions[state, event]
    ]
    forgetful = set() if Protocol.forgetful else {"redis_saves", "redis_loses"}
    rules = [rule.function.__name__ for rule in Protocol.setup_state().rules]
    missing += [f"rule {name} never ran" for name in sorted(set(rules) - set(COVERAGE.rules) - forgetful)]
    return missing


def report() -> str:
    """Return how often everything was exercised."""
    lines = ["replies"]
    lines += [f"  {script:14} {code:12} {n:8}" for (script, code), n in sorted(COVERAGE.replies.items())]
    lines += ["transitions"]
    lines += [f"  {state:10} {event:12} {n:8}" for (state, event), n in sorted(COVERAGE.transitions.items())]
    lines += ["rules"]
    lines += [f"  {name:32} {n:8}" for name, n in sorted(COVERAGE.rules.items())]
    return "\n".join(lines)
