"""Are the jobs looked after? Workers, lapsed leases, and whether every accepted job is accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from denyut.monitoring.check import Check
from denyut.monitoring.partition import read_partitions
from denyut.monitoring.workers import live_workers

if TYPE_CHECKING:
    from denyut.app import Denyut

__all__ = ["check_audit", "check_leases", "check_workers"]

#: What a recoverer needs from a lapsed lease to a published job: promised in the README (us).
_RECOVERY_US = 2_000_000


def check_workers(pulse: Denyut, client: Any) -> Check:
    """Somebody beats, and in time."""
    workers = live_workers(pulse, client)
    if not workers:
        return Check.warn("workers", "no worker beats", "start one: celery -A APP worker")
    late = [worker for worker in workers if worker.late_s > pulse.settings.beat_interval]
    if late:
        worst = max(late, key=lambda worker: worker.late_s)
        message = f"{len(late)} of {len(workers)} worker(s) beat late, {worst.name} by {worst.late_s:.1f} s"
        return Check.warn("workers", message, "its host, or Redis, is overloaded; or raise denyut_lease_ttl")
    running = sum(worker.running for worker in workers)
    return Check.ok("workers", f"{len(workers)} worker(s) beat and run {running} job(s)")


def check_leases(pulse: Denyut, client: Any) -> Check:
    """No job stays without the lease that it had."""
    partitions = read_partitions(pulse, client)
    ages = [p.now_us - deadline for p in partitions for deadline in p.lapsed.values()]
    leases = sum(len(partition.leases) for partition in partitions)
    if not ages:
        return Check.ok("leases", f"{leases} job(s) hold a lease")
    message = f"{len(ages)} job(s) have lost their worker, the first {max(ages) / 1e6:.1f} s ago"
    if max(ages) <= _RECOVERY_US:
        return Check.warn("leases", message, "recovery is about to publish them: look again")
    hint = "any worker of this app recovers them: is one running? Its log says what hinders it"
    return Check.fail("leases", message, hint)


def check_audit(pulse: Denyut, client: Any) -> Check:
    """Every accepted job has ended or is known."""
    partitions = read_partitions(pulse, client)
    accepted = sum(partition.accepted for partition in partitions)
    missing = sum(partition.missing for partition in partitions)
    if missing:
        message = f"{missing} of {accepted} accepted job(s) have neither ended nor are they known"
        hint = "keys were deleted or evicted (see jobs reindex); or a replacement is under way: look again"
        return Check.warn("audit", message, hint)
    ended = sum(partition.ended for partition in partitions)
    return Check.ok("audit", f"{accepted} job(s) were accepted, {ended} have ended, all others are known")
