"""What can go wrong while somebody talks to Redis."""

from __future__ import annotations

from dataclasses import dataclass


class Died(BaseException):
    """The process ended at this very point. Nothing catches it but the model."""


class Unanswered(BaseException):
    """The reply was lost: the script has run, the caller does not know. It sends it again later."""


class Violation(AssertionError):
    """Something happened that the protocol forbids."""


@dataclass
class Faults:
    """Faults of one operation, counted in the commands that it sends to Redis.

    Args:
        twice: every script is sent twice, and must answer the same.
        lose_at: the reply of the n-th command is lost.
        die_at: the process ends after the n-th command.
    """

    twice: bool = False
    lose_at: int = 0
    die_at: int = 0
    sent: int = 0

    def after_command(self) -> None:
        """Count a command, and let happen what is to happen after it."""
        self.sent += 1
        if self.sent == self.die_at:
            raise Died
        if self.sent == self.lose_at:
            raise Unanswered
