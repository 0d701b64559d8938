"""What a campaign has to say for itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from campaign.conduct import Campaign

_MOST = 30


def as_dict(campaign: Campaign) -> dict[str, Any]:
    """Return the numbers, for machines."""
    found, verdict = campaign.evidence, campaign.verdict
    noticed = sorted(gap for gaps in found.crash_events.values() for gap in gaps)
    recovered = sorted(r.recovered_us / 1e6 for r in found.records.values() if r.recovered_us is not None)
    return {
        "seed": campaign.plan_seed,
        "seconds": round(campaign.took, 1),
        "accepted": verdict.accepted,
        "effects": verdict.effects,
        "dead": len(verdict.dead),
        "results": dict(Counter(found.results.values())),
        "duplicates": campaign.duplicates,
        "crashes": sum(r.crashes for r in found.records.values()),
        "kills": dict(campaign.kills),
        "restarts": dict(campaign.restarts),
        # From the last sign of life of a lost attempt until it was published again, and until it ran again.
        "published_again_s": _spread(noticed),
        "ran_again_s": _spread(recovered),
        "violations": len(verdict.violations),
    }


def _spread(sorted_: list[float]) -> dict[str, float]:
    if not sorted_:
        return {}
    ranks = {"median": 0.5, "p99": 0.99, "longest": 1.0}
    return {
        name: round(sorted_[min(int(q * len(sorted_)), len(sorted_) - 1)], 2) for name, q in ranks.items()
    }


def table(campaign: Campaign) -> str:
    """Return the same for people."""
    numbers = as_dict(campaign)
    lines = [f"{name.replace('_', ' '):<22}{value}" for name, value in numbers.items() if name != "kills"]
    lines += ["", f"{campaign.kills.total()} kills:"]
    lines += [f"  {point:<32}{times:>6}" for point, times in campaign.kills.most_common()]
    wrong = campaign.verdict.violations
    lines += ["", f"{len(wrong)} violations" + (":" if wrong else "")]
    lines += [f"  {text}" for text in wrong[:_MOST]]
    return "\n".join(lines)
