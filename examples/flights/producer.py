"""A producer: enqueues the import of each month it is given, as soon as it is told to.

It is run twice, in two processes that are let go at the same moment. Which of the two makes the job, and
which gets the other's, is decided anew for each month.
"""

from __future__ import annotations

import json
import sys

from app import import_month


def main() -> None:
    """Say that this process is ready, wait for a line, enqueue, and print what came of it."""
    print("ready", flush=True)
    sys.stdin.readline()
    answers = [(month, import_month.delay(month)) for month in sys.argv[1:]]
    print(json.dumps([[month, job.id, job.deduplicated] for month, job in answers]), flush=True)


if __name__ == "__main__":
    main()
