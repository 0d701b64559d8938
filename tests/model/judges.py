"""What each script must answer and change: one function for each script, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model import judge_attempt, judge_claim, judge_enqueue, judge_outside, judge_recovery

#: Called as ``JUDGES[script](oracle, keys, arguments, answer)``.
JUDGES: dict[str, Callable[..., Any]] = {
    name.removeprefix("judge_"): judge
    for module in (judge_enqueue, judge_claim, judge_attempt, judge_recovery, judge_outside)
    for name, judge in vars(module).items()
    if name.startswith("judge_") and callable(judge)
}
