"""What a million stored jobs cost: the same work with them and with a hundredth of them, in pairs."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from itertools import count, cycle
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from bench_app import make_app
from pairs import Comparison, compare
from sqlalchemy import text

from denyut.database.prune import prune
from denyut.database.save import save_jobs
from denyut.states import State
from denyut.tasks.claim import Key, claim
from denyut.tasks.envelope import Stamp
from denyut.tasks.finish import Outcome, finish
from denyut.tasks.pages import Place, cursor_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from denyut import Denyut

CLAIMS, PAGES, BATCH = 100, 10, 500  # a round
#: What a list is asked for, in turns: everything, a tenth, a twentieth, a tenth of that, one.
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"state": "FAILED"},
    {"task": "t3"},
    {"task": "t3", "state": "FAILED"},
    {"key": "k505"},
)
_COLUMNS = (
    "prefix, id, version, state, settled, task, queue, key, queued_at, finished_at, forget_at, at, record"
)


class Million(NamedTuple):
    """What came out, by name, and the longest transaction that purged rows of the large store (ms)."""

    results: dict[str, Comparison]
    longest_purge_ms: float


def stored_throughput(kind: str, urls: dict[str, str], rows: int, seconds: float) -> Million:
    """Claims, pages of lists, writes and purges with ``rows`` stored jobs, against a hundredth of them.

    Args:
        kind: of the databases, for the names of what came out.
        urls: addresses of two empty databases, ``large`` and ``small``.
        rows: in the large one.
        seconds: about how long to measure. Filling comes before.
    """
    apps = {}
    for name, url in urls.items():
        os.environ[f"BENCH_{name.upper()}"] = url
        apps[name] = make_app(name).denyut
        apps[name].database.create()
        fill(apps[name], rows if name == "large" else rows // 100)
    took: list[float] = []
    measured: dict[str, Callable[[Denyut], float]] = {
        "claim": claims,
        "claim_lost": partial(claims, lost=True),
        "list": Lists(rows),
        "write": writes,
        "purge": partial(purges, took=took),
    }
    try:
        part = seconds / len(measured)
        results = {
            f"{name}_{kind}_stored": compare(
                partial(run, apps["large"]), partial(run, apps["small"]), seconds=part
            )
            for name, run in measured.items()
        }
    finally:
        for pulse in apps.values():
            pulse.saving.close()
            pulse.database.close()
    return Million(results, max(took) * 1000)


def fill(pulse: Denyut, rows: int) -> None:
    """Write jobs that have ended, of twenty tasks, one each microsecond: a tenth failed, a tenth is keyed."""
    source = f"generate_series(1, {rows}) AS n"
    if pulse.database.url.get_backend_name() == "sqlite":
        series = f"SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {rows}"
        source = f"(WITH RECURSIVE series(n) AS ({series}) SELECT n FROM series)"
    state = "CASE WHEN n % 10 = 3 THEN 'FAILED' ELSE 'COMPLETED' END"
    start, end = json.dumps({"task": "t3", "queue": "q", "msg": "x" * 400, "state": "?"}).split("?")
    select = (
        f"SELECT '{pulse.settings.prefix}', 'stored-' || n, n, {state}, 1 = 1, 't' || (n % 20), 'q', "
        "CASE WHEN n % 10 = 5 THEN 'k' || n END, n, n, 9000000000000000, n, "
        f"'{start}' || {state} || '{end}' FROM {source}"
    )
    with pulse.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if pulse.database.url.get_backend_name() == "postgresql":
            connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text(f"INSERT INTO denyut_jobs ({_COLUMNS}) {select.replace(':', chr(92) + ':')}"))
        connection.execute(text("ANALYZE"))
        connection.invalidate()  # no other statement may take as long as this


def claims(pulse: Denyut, *, lost: bool = False) -> float:
    """Claims a second; with ``lost`` of jobs that Redis does not know, so that the store is asked."""
    queue, task = "bench.nobody", pulse.app.tasks["bench.nothing"]
    stamp = Stamp() if lost else Stamp(gen=1)
    ids = [str(uuid4()) if lost else task.apply_async(queue=queue).id for _ in range(CLAIMS)]
    message = lambda: ('["[]", "application/json", "utf-8", {}, {}, "", "q"]', Key())  # noqa: E731
    begin = time.perf_counter()
    given = [
        claim(pulse, job_id, task=task.name, queue=queue, stamp=stamp, pid=1, message=message)
        for job_id in ids
    ]
    took = time.perf_counter() - begin
    for job_id, each in zip(ids, given, strict=True):  # what runs is listed, too
        outcome = Outcome(state=State.COMPLETED)
        finish(pulse, job_id, each.fence, outcome, digest=None, retention=60.0, settled=True)
    pulse.store.client.delete(queue)
    return CLAIMS / took


class Lists:
    """Pages of 100 jobs a second, anywhere in the list, with every kind of filter in turn."""

    def __init__(self, rows: int) -> None:
        self._random, self._rows = Random(5), rows

    def __call__(self, pulse: Denyut) -> float:
        rows = self._rows if pulse.settings.prefix == "large" else self._rows // 100
        begin = time.perf_counter()
        for _, filters in zip(range(PAGES), cycle(FILTERS), strict=False):
            place = Place(self._random.randint(1, rows), "")
            page = pulse.jobs.list(limit=100, cursor=cursor_of(place), **filters)  # type: ignore[arg-type]
            assert page.complete
        return PAGES / (time.perf_counter() - begin)


_numbers = count()


def _rows(pulse: Denyut, forget_at: int) -> list[dict[str, Any]]:
    given: dict[str, Any] = dict.fromkeys(("key", "digest", "due", "budget"))
    given |= {"prefix": pulse.settings.prefix, "state": "COMPLETED", "settled": True, "task": "t1"}
    given |= {"queue": "q", "forget_at": forget_at, "record": json.dumps({"msg": "x" * 450})}
    ids = [f"new-{next(_numbers)}" for _ in range(BATCH)]
    times = dict.fromkeys(("version", "queued_at", "finished_at", "at"), 10**15)
    return [{**given, **times, "id": job_id} for job_id in ids]


def writes(pulse: Denyut) -> float:
    """Jobs a second that a transaction of the applier writes, 500 at once."""
    rows = _rows(pulse, 9 * 10**15)
    begin = time.perf_counter()
    with pulse.database.begin() as connection:
        save_jobs(connection, rows)
    return BATCH / (time.perf_counter() - begin)


def purges(pulse: Denyut, took: list[float]) -> float:
    """Jobs a second that are purged, 500 in one transaction: for so long other writers wait."""
    with pulse.database.begin() as connection:
        save_jobs(connection, _rows(pulse, 1))
    begin = time.perf_counter()
    with pulse.database.begin() as connection:
        assert prune(connection, pulse.settings.prefix, 2, now_us=3, limit=BATCH) == BATCH
    spent = time.perf_counter() - begin
    if pulse.settings.prefix == "large":
        took.append(spent)
    return BATCH / spent
