"""Writing again what Redis has lost of a running attempt, so that its outcome is not lost too."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from denyut.scripts import Script
from denyut.tasks.claim import us
from denyut.tasks.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut.app import Denyut
    from denyut.tasks.claim import Claim, Key

__all__ = ["restore"]

RESTORE = Script("denyut.tasks", "restore")

logger = logging.getLogger(__name__)


def restore(
    pulse: Denyut,
    job_id: str,
    claim: Claim,
    *,
    generation: int,
    task: str,
    queue: str,
    message: Callable[[], tuple[str, Key]],
    retention: float,
) -> bool:
    """Restore the running attempt of ``claim`` after its write was refused.

    Args:
        pulse: the app's Denyut.
        job_id: the job.
        claim: what the claim answered.
        generation: of its message.
        task: the task's name.
        queue: where its message came from.
        message: returns its message as data, and its key.
        retention: seconds that it is remembered after its end.

    Returns:
        False if the attempt has lost its job to another, or to its end: nothing was written.
    """
    text, key = message()
    fields: list[Any] = ["task", task, "queue", queue, "gen", max(generation, 1), "crashes", claim.crashes]
    fields += ["failures", 0, "msg", text, "retention", round(retention)]
    if key.digest:
        fields += ["key", key.key, "digest", key.digest, "fp", key.fingerprint]
    args = [job_id, claim.fence, claim.owner, os.getpid(), claim.attempt, us(pulse.settings.lease_ttl)]
    keys = pulse.keys.script(job_id, key.digest or None)
    ok = bool(patiently(lambda: RESTORE(pulse.store.client, keys, [*args, *fields])) == b"OK")
    if ok:
        logger.warning("job %s: Redis had lost attempt %d; it was written again", job_id, claim.attempt)
    return ok
