"""What is done before this worker ends one of its running jobs on purpose.

The heartbeat, which this package must not know, tells Redis, so that no crash is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["before_leaving", "leaving"]

_tell: Callable[[str], None] | None = None


def before_leaving(tell: Callable[[str], None] | None) -> None:
    """Call ``tell`` with the id of each job that is about to be ended; None: nobody."""
    global _tell  # noqa: PLW0603 - one worker per process
    _tell = tell


def leaving(job_id: str) -> None:
    """Say that the running job ``job_id`` is about to be ended, to run again elsewhere."""
    if _tell is not None:
        _tell(job_id)
