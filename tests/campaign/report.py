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
        "recoveries": len(recovered),
        "median_recovery_s": round(recovered[len(recovered) // 2], 2) if recovered else None,
        "longest_recovery_s": round(recovered[-1], 2) if recovered else None,
        "violations": len(verdict.violations),
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
