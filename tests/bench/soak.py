"""``make soak``: a million jobs with short retention. Redis' memory and keys, and the worker, must stay flat.

    python tests/bench/soak.py [--jobs 1000000] [--through scripts|worker] [--seconds 3600]

``scripts`` sends what an enqueue, a claim and a finish send (taken from one real job, and checked to be
all that it sends), many jobs in one round trip: the server goes through the same scripts, keys and
messages, in a tenth of the time. ``worker`` is a real worker and a real producer, for its memory.

In ten parts. After each the load rests until the retention is over: what is there then is what a job
leaves behind for ever. Exit code 1 if that grows, or the memory of the processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # bench, nodes, support

from bench.through import Through, ThroughScripts, ThroughWorker
from nodes.valkey import PrivateValkey

PARTS = 10
RETENTION = 2.0  # s, of records and of Celery's results
_REST = 30.0  # the server expires keys when it has time


@dataclass(frozen=True, slots=True)
class Sample:
    """What was there after a part: under load, and at rest. Memory in MiB."""

    jobs: int
    seconds: float
    load_keys: int
    load_mib: float
    rest_keys: int
    rest_mib: float
    counters: int
    rss_mib: float


def soak(
    through: Through,
    server: PrivateValkey,
    jobs: int,
    *,
    parts: int = PARTS,
    deadline: float = 3600.0,
    tell: Callable[[str], Any] = lambda _: None,
) -> list[Sample]:
    """Run ``jobs`` jobs in ``parts`` parts, at most until ``deadline`` seconds are over."""
    begin = time.monotonic()
    samples: list[Sample] = []
    with server.client() as client:
        through.run(max(200, jobs // 100))  # scripts, connections, pools: what is there once
        _rest(client, through)
        for part in range(1, parts + 1):
            through.run(jobs // parts)
            under_load = client.dbsize(), _memory(client)
            rest = _rest(client, through)
            samples.append(
                Sample(
                    jobs * part // parts,
                    round(time.monotonic() - begin, 1),
                    *under_load,
                    *rest,
                    counters=_counters(client, through),
                    rss_mib=round(through.rss_mib(), 1),
                )
            )
            tell(_line(samples[-1]))
            if time.monotonic() - begin > deadline:
                break
    return samples


def growth(samples: list[Sample]) -> list[str]:
    """Return what grew between the first half and the second: nothing, if all is well.

    What is there under load is as much as ran within the retention, so it goes up and down with the speed.
    """
    half = len(samples) // 2
    first, second = samples[:half], samples[half:]
    grown = []
    for name, factor, slack in (
        ("rest_keys", 1.0, 0.0),
        ("counters", 1.0, 0.0),
        ("rest_mib", 1.02, 0.5),
        ("rss_mib", 1.05, 5.0),
    ):
        before, after = (max(getattr(s, name) for s in part) for part in (first, second))
        if after > before * factor + slack:
            grown.append(f"{name} grew from {before} to {after}")
    return grown


def _rest(client: Any, through: Through) -> tuple[int, float]:
    """Wait until the retention is over and the number of keys stands still; return keys and memory."""
    end = time.monotonic() + _REST
    fewest, since = client.dbsize(), time.monotonic()
    while time.monotonic() < end and time.monotonic() - since < 1.5 * through.retention:
        through.tidy()
        time.sleep(0.2)
        if (keys := client.dbsize()) < fewest:
            fewest, since = keys, time.monotonic()
    client.memory_purge()
    return client.dbsize(), _memory(client)


def _memory(client: Any) -> float:
    return round(client.info("memory")["used_memory"] / 2**20, 2)


def _counters(client: Any, through: Through) -> int:
    return sum(client.hlen(part.counters) for part in through.pulse.keys.all_partitions())


def _line(s: Sample) -> str:
    return (
        f"{s.jobs:>9} jobs {s.seconds:>7.1f} s | under load {s.load_keys:>7} keys {s.load_mib:>7.2f} MiB | "
        f"at rest {s.rest_keys:>5} keys {s.rest_mib:>6.2f} MiB, {s.counters} counters | RSS {s.rss_mib} MiB"
    )


def main() -> int:
    """Soak, and print what came out; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many (1000000)")
    parser.add_argument("--through", choices=("scripts", "worker"), default="scripts")
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after the part that passes this")
    given = parser.parse_args()
    kind = {"scripts": ThroughScripts, "worker": ThroughWorker}[given.through]
    with tempfile.TemporaryDirectory(prefix="denyut-") as name:
        server = PrivateValkey(Path(name))
        server.start()
        through = kind(server, Path(name), RETENTION)
        try:
            samples = soak(through, server, given.jobs, deadline=given.seconds, tell=print)
        finally:
            through.close()
            server.kill()
    grown = growth(samples)
    print("\n".join(grown) or "flat")
    print(json.dumps({"through": given.through, "samples": [asdict(s) for s in samples], "grown": grown}))
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
