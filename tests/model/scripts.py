"""The scripts of production, with time that the model moves, and, for the mutants, one line broken.

Only :func:`denyut.scripts._load` is replaced: every ``Script`` of the package then runs the text that
ships, after ``virtual_time.lua``, which gives it the model's clock and deadlines. Real expiries would
make each example take as long as its leases, and what it finds depend on the machine's load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Any

import denyut
from denyut import scripts

_HERE = Path(__file__).parent
_PRELUDE = (_HERE / "virtual_time.lua").read_text()
#: Does nothing: what is over by the model's clock is gone after it.
_TICK = _PRELUDE + "return redis.call('TIME')"
_AUDIT = (_HERE / "audit.lua").read_text()
_PACKAGE = Path(denyut.__file__).parent

#: The scripts of the job protocol.
PROTOCOL = ("denyut.tasks", "denyut.signals")


@dataclass(frozen=True)
class Mutant:
    """A script with one line broken: what ``old`` says is replaced by ``new``."""

    script: str
    old: str
    new: str
    why: str
    elsewhere: str = ""  # the test file that finds it, where the model cannot


class Library:
    """The text of every script by name, and its name by SHA.

    Args:
        mutant: a defect to put in; None for the scripts as they ship.
    """

    def __init__(self, mutant: Mutant | None = None) -> None:
        self.mutant = mutant
        self.names: dict[str, str] = {}
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._ship = scripts._load
        self._installed: Any = None

    def install(self, redis: Any) -> tuple[str, str]:
        """Make all scripts known to the server; returns the SHA of the audit, and of a mere tick."""
        if self._installed is not redis:
            for package in PROTOCOL:
                for path in sorted((_PACKAGE / package.split(".")[1] / "lua").glob("*.lua")):
                    redis.script_load(self.load(package, path.stem)[0])
            self._own = (redis.script_load(_AUDIT), redis.script_load(_TICK))
            self._installed = redis
        return self._own

    def load(self, package: str, name: str) -> tuple[str, str]:
        """Stand in for ``denyut.scripts._load``."""
        if (package, name) not in self._known:
            text = self._ship(package, name)[0]
            if self.mutant is not None and self.mutant.script == name:
                assert text.count(self.mutant.old) == 1, f"{name}.lua has no longer one {self.mutant.old!r}"
                text = text.replace(self.mutant.old, self.mutant.new)
            text = _PRELUDE + text
            sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
            self._known[package, name] = (text, sha)
            self.names[sha] = name
        return self._known[package, name]


@contextmanager
def virtual(library: Library) -> Iterator[Library]:
    """Let every ``Script`` be loaded from ``library``."""
    ship = scripts._load
    scripts._load = library.load
    try:
        yield library
    finally:
        scripts._load = ship


def documented_codes(package: str, name: str) -> set[str]:
    """Return the reply codes that the head of a script lists under ``Returns:``."""
    head = (_PACKAGE / package.split(".")[1] / "lua" / f"{name}.lua").read_text().split("-- Complexity")[0]
    returns = head.split("-- Returns:")[1]
    codes = set(re.findall(r"'([A-Z]+)'", returns))
    return codes or set(re.findall(r"(?<![\w.])([01])\b(?! in)", returns))
