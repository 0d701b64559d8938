"""One finding of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Check", "Level"]


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """What was found. ``hint`` says what to do; empty if all is well."""

    name: str
    level: Level
    message: str
    hint: str = ""

    @classmethod
    def ok(cls, name: str, message: str) -> Check:
        """All is well."""
        return cls(name, Level.OK, message)

    @classmethod
    def warn(cls, name: str, message: str, hint: str) -> Check:
        """Something to know."""
        return cls(name, Level.WARN, message, hint)

    @classmethod
    def fail(cls, name: str, message: str, hint: str) -> Check:
        """Something that breaks a promise."""
        return cls(name, Level.FAIL, message, hint)
