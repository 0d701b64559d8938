"""Whether a chord still waits for its body although all its members have returned.

Celery 5.7 lets one process dispatch the body of a chord: the one that takes the claim ``<group>.c``, for a
few seconds, when the last member returns. If it dies between, the chord's data stays, and a replay of that
member takes the claim over (see ``backend.py``) if the body is a job, which is recognised by its id. Where
it is not, or Redis fails in between, the member stays unsettled, and recovery replays it until the body was
sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_chord_waiting"]

#: What Celery leaves in the claim when the body was sent.
_SENT = b"done"


def is_chord_waiting(backend: Any, request: Mapping[str, Any]) -> bool:
    """Whether the chord of the task ``request`` is complete, and its body was not sent.

    Always False for a backend that knows no claims (Celery before 5.7, other backends): there each
    replay of the last member dispatches the body again, which is recognised by its id.

    Raises:
        redis.exceptions.RedisError: the result backend cannot be asked.
    """
    group = request.get("group")
    if not group or not request.get("chord") or not hasattr(type(backend), "_chord_claim_extend_script"):
        return False
    claim, size, more, parts = (backend.get_key_for_group(group, end) for end in (".c", ".s", ".t", ".j"))
    with backend.client.pipeline() as pipe:
        pipe.get(claim).get(size).get(more)
        if backend._chord_zset:  # noqa: SLF001 - how it keeps the parts decides how they are counted
            pipe.zcard(parts)
        else:
            pipe.llen(parts)
        claimed, size_found, more_found, returned = pipe.execute()
    if claimed == _SENT or size_found is None:
        return False
    return int(returned) == int(size_found) + int(more_found or 0)
