"""``make demo``: a year of flights through jobs that get killed, into medians that stay exact.

Twelve import jobs, each enqueued twice; two job workers, a median worker, the exporter and Flower on a
private Valkey; a pool process and a whole worker killed with SIGKILL midway; and at the end every number
beside the same one computed by sorting the file. The last line is JSON.

    python demo.py [--keep] [--months 12] [--timeout 150]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from data import MONTHS
from plot import HERE, Plot
from report import as_json, differences, lines
from stage import Stage, StageError
from view import make_view

from denyut.embedded import ensure_server
from denyut.errors import DenyutError

if TYPE_CHECKING:
    from collections.abc import Sequence


def perform(months: Sequence[str], timeout: float, *, keep: bool) -> bool:
    """Play the demo in a temporary folder, print the report, and return whether it is a PASS."""
    # The server ends with this process, so it may still write while its folder is taken away.
    with TemporaryDirectory(prefix="denyut-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "pyproject.toml").touch()  # makes it a project's folder: the server's data stay in it
        server = ensure_server(folder)
        for variable in [each for each in os.environ if each.startswith("CELERY_")]:
            del os.environ[variable]  # of another project
        os.environ |= {"DENYUT_REDIS_URL": server.url, "PYTHONPATH": str(HERE)}
        from app import pulse  # it reads the environment

        with Stage(folder, os.environ) as stage:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, stage.interrupt)
            view = make_view()
            try:
                plot = Plot(pulse, stage, server, months, view, timeout)
                facts = plot.play()
            finally:
                view.close()
            print("\n" + "\n".join(lines(facts)))
            if keep:
                print(
                    f"\nFlower   {plot.flower}\nmetrics  {plot.metrics}\nlogs     {folder}\nCtrl-C ends it.\n"
                )
            print(json.dumps(as_json(facts)), flush=True)
            if keep:
                _linger(stage)
    return not differences(facts)


def _linger(stage: Stage) -> None:
    try:
        while True:
            stage.check()
            time.sleep(1.0)
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(description="A year of flights, two kills, exact medians.")
    parser.add_argument("--keep", action="store_true", help="leave everything up and print the addresses")
    parser.add_argument("--months", type=int, default=12, choices=range(1, 13), help="how many (12)")
    parser.add_argument("--timeout", type=float, default=150.0, help="seconds until it gives up (150)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return 0 if perform(MONTHS[: options.months], options.timeout, keep=options.keep) else 1
    except (StageError, DenyutError, FileNotFoundError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
