"""How the rules of the machine are made, and what they draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import rule
from model.attempts import ENDS
from model.oracle import COVERAGE
from model.world import SETTINGS

from denyut.tasks.claim import us

T = TypeVar("T")
PICK = st.integers(0, 11)
FEW = st.integers(0, 1)
KEYS = st.sampled_from([None, None, "a", "b"])
FAULTS = st.sampled_from(
    [
        {},
        {},
        {},
        {},
        {"twice": True},
        {"lose_at": 1},
        {"lose_at": 2},
        {"die_at": 1},
        {"die_at": 2},
        {"die_at": 3},
    ]
)
#: A little, some seconds, and just beyond each deadline that there is.
STEPS = st.sampled_from(
    [1, 1_000_000, us(SETTINGS.lease_ttl) // 2, 10_000_001]
    + [us(after) + 1 for after in (SETTINGS.lease_ttl, SETTINGS.queued_timeout, SETTINGS.retention)]
)
OPTIONS = st.fixed_dictionaries({"continues": st.booleans(), "pushed": st.booleans()})
BY = st.sampled_from(["", "x#0", "y#0"])
HOW = st.sampled_from([*ENDS, "complete", "complete", "retry", "replace", "replace later", "requeue"])
MOST_JOBS = 10


def happens(**strategies: Any) -> Callable[[Any], Any]:
    """A rule that is counted, and that remembers that it failed: then there is nothing to drain."""

    def decorate(function: Any) -> Any:
        @wraps(function)
        def step(self: Any, **given: Any) -> None:
            COVERAGE.rules[function.__name__] += 1
            try:
                function(self, **given)
            except BaseException:
                self.failed = True
                raise

        return rule(**strategies)(step)

    return decorate


def pick(items: Sequence[T], number: int) -> T:
    return items[number % len(items)]
