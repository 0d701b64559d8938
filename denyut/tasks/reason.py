"""Why a job's budget of failures is spent, in words for its dead letter."""

from __future__ import annotations

import json

from celery.exceptions import TimeLimitExceeded

__all__ = ["not_retried", "retries_spent", "why_ended"]


def retries_spent(retries: int, most: int) -> str:
    """Return the reason of a task that asked for one retry more than it has.

    Args:
        retries: how many it had.
        most: how many it may have.
    """
    if not most:
        return "no retry is allowed (max_retries=0)"
    return f"{_retries(retries)} spent (max_retries={most})"


def not_retried(error: str, retries: int = 0) -> str:
    """Return the reason of a task that failed without asking for a retry.

    Args:
        error: JSON list of the error's type and message.
        retries: how many it had before.
    """
    kind = json.loads(error)[0] if error else "unknown error"
    before = f" after {_retries(retries)}" if retries else ""
    return f"not retried{before}: {kind}"


def why_ended(exc: BaseException | None, error: str) -> str:
    """Return the reason of a job that somebody outside its attempt has failed."""
    if isinstance(exc, TimeLimitExceeded):
        limit = exc.args[0] if exc.args else "unknown"
        seconds = f"{limit:g}" if isinstance(limit, int | float) else limit
        return f"over its hard time limit of {seconds} s"
    return not_retried(error)


def _retries(count: int) -> str:
    return "1 retry" if count == 1 else f"{count} retries"
