"""One producer of a campaign, as a process that may die anywhere and goes on where it was.

    python producer.py SEED SIZE INDEX FILE

FILE keeps a line for each enqueue that was answered: number, id, whether the job was there already.
A producer that is started again repeats the one it was not told about: the key makes it one job.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # apps, nodes, support

from campaign.plan import Job, make_plan

#: Messages in the queue at which a producer pauses, so that enqueues and kills go on side by side.
_MOST_WAITING = 150


def send(module: Any, job: Job) -> Any:
    """Enqueue one job."""
    options: dict[str, Any] = {"idempotency_key": f"n{job.n}"}
    if job.kind == "later":
        options["countdown"] = 0.2 + job.n % 10 / 5
    if job.kind == "linked":
        options["link"] = module.follow.s(job.n)
    task = {"again": module.again, "poison": module.poison}.get(job.kind, module.plain)
    return task.apply_async((job.n,), **options)


def read_log(path: Path) -> list[tuple[int, str, bool]]:
    """Return what a producer was answered; a line that was cut short by a kill is none."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    parts = [line.split() for line in lines]
    return [(int(n), job_id, known == "1") for n, job_id, known in parts]


def main() -> None:
    """Send everything that was not answered yet."""
    seed, size, index = map(int, sys.argv[1:4])
    path = Path(sys.argv[4])
    from apps import campaign as module

    def waiting() -> int:
        return int(module.app.denyut.store.client.llen(module.app.conf.task_default_queue))

    plan = make_plan(seed, size)
    answered = read_log(path)
    if path.exists():  # what a kill cut short
        path.write_text("".join(f"{n} {job_id} {int(known)}\n" for n, job_id, known in answered))
    with path.open("a") as log:
        for n in plan.orders[index][len(answered) :]:
            result = send(module, plan.jobs[n])
            log.write(f"{n} {result.id} {int(result.deduplicated)}\n")
            log.flush()
            while waiting() > _MOST_WAITING:
                time.sleep(0.05)


if __name__ == "__main__":
    main()
