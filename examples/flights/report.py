"""The end: what Denyut says beside what sorting says, and the sums of what was suppressed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from truth import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the demo measured. ``found`` and ``expected``: the summary of each stream, read and sorted."""

    found: Mapping[str, Summary]
    expected: Mapping[str, Summary]
    duplicates: Mapping[str, int]
    crashes: int
    recovery_s: list[float]
    wall_s: float
    #: Everything else that is not as it should be.
    complaints: list[str] = field(default_factory=list)


def differences(facts: Facts) -> list[str]:
    """Return what keeps this from being a PASS; numbers are compared bit for bit."""
    found, expected = facts.found, facts.expected
    wrong = [f"{name}: not a stream that the file gives" for name in sorted(found.keys() - expected.keys())]
    for name in sorted(expected):
        if name not in found:
            wrong.append(f"{name}: missing")
            continue
        ours, theirs = asdict(found[name]), asdict(expected[name])
        wrong += [
            f"{name}: {what} is {ours[what]!r}, sorting gives {theirs[what]!r}"
            for what in theirs
            if ours[what] != theirs[what]
        ]
    return wrong + facts.complaints


def as_json(facts: Facts) -> dict[str, Any]:
    """Return the last line of the demo."""
    return {
        "ok": not differences(facts),
        "events": sum(summary.count for summary in facts.found.values()),
        "streams": len(facts.found),
        "duplicates": dict(facts.duplicates),
        "recovery_s": facts.recovery_s,
        "crashes": facts.crashes,
        "wall_s": facts.wall_s,
    }


def lines(facts: Facts) -> Iterator[str]:
    """Yield the report, line by line."""
    yield f"{'':14} {'Denyut':>32}   {'the file, sorted':>32}"
    yield f"{'stream':14} " + "   ".join([f"{'count':>12} {'median':>8} {'p95':>10}"] * 2)
    for name in sorted(facts.found.keys() | facts.expected.keys()):
        pair = facts.found.get(name), facts.expected.get(name)
        yield f"{name:14} {_row(pair[0])}   {_row(pair[1])}  {'=' if pair[0] == pair[1] else 'DIFFERENT'}"
    again = facts.duplicates
    yield ""
    yield (
        f"duplicates suppressed: {again['enqueue']} enqueues, {again['claim']} deliveries, "
        f"{again['event']:,} events"
    )
    took = ", ".join(f"{seconds:.2f}" for seconds in facts.recovery_s)
    yield f"crashes: {facts.crashes}; from the last sign of life to the next attempt: {took or '-'} s"
    yield f"{sum(summary.count for summary in facts.found.values()):,} events in {facts.wall_s:.1f} s"
    yield ""
    wrong = differences(facts)
    yield from wrong
    yield "FAIL" if wrong else "PASS: every count, median and 95th percentile agrees, bit for bit"


def _row(summary: Summary | None) -> str:
    if summary is None:
        return f"{'-':>12} {'-':>8} {'-':>10}"
    return f"{summary.count:12,} {summary.median:8g} {summary.p95:10.6g}"
