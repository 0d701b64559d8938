"""Lists of the job store: one order, pages that fit together, and an index for each query."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, event, text

from denyut.database.audit import prune_audit, read_audit
from denyut.database.engine import Database
from denyut.database.places import read_dead_places, read_places
from denyut.database.prune import prune, prune_gone
from denyut.database.read import Owed, read_events, read_gone, read_owed, read_records
from denyut.database.save import save_jobs
from denyut.database.tables import tables
from denyut.states import State
from denyut.wanted import Wanted

MANY = 20_000


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")
    made = Database(url, timeout=30.0)
    made.create()
    yield made
    made.close()


def row(job_id: str, at: int | None, state: str = "COMPLETED", task: str = "t", **fields) -> dict:
    given = {"prefix": "d", "id": job_id, "version": 1, "state": state, "settled": True, "task": task}
    rest = dict.fromkeys(("key", "digest", "budget", "queued_at", "due", "finished_at", "forget_at"))
    return {**given, "queue": "q", **rest, "at": at, "record": "{}", **fields}


def write(database: Database, *rows: dict) -> None:
    with database.begin() as connection:
        save_jobs(connection, rows)


def turn(database: Database, wanted: Wanted, limit: int, between=lambda: None) -> list[str]:
    """Turn all pages."""
    found: list[tuple[int, str]] = []
    while True:
        with database.begin() as connection:
            last = found[-1] if found else None
            page = read_places(connection, "d", wanted, before=last, limit=limit)
        found += page
        if len(page) < limit:
            return [job_id for _, job_id in found]
        between()


JOBS = st.lists(
    st.tuples(
        st.integers(1, 4), st.sampled_from(["COMPLETED", "FAILED", "RUNNING"]), st.sampled_from(["t", "u"])
    ),
    max_size=20,
)
WANTED = st.builds(
    Wanted,
    state=st.sampled_from([None, State.COMPLETED, State.FAILED, State.DEAD]),
    task=st.sampled_from([None, "t", "u"]),
    key=st.sampled_from([None, "k0", "k1"]),
    since=st.sampled_from([None, 2]),
    until=st.sampled_from([None, 4]),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, later=JOBS, wanted=WANTED, limit=st.integers(1, 6))
def test_pages_together_are_the_wanted_jobs_in_order_whatever_is_written_meanwhile(
    database, jobs, later, wanted, limit
):
    with database.begin() as connection:
        connection.execute(delete(tables()[0]))
    rows = [row(f"j{n:02}Aa"[n % 2 :], at, s, t, key=f"k{n % 3}") for n, (at, s, t) in enumerate(jobs)]
    write(database, *rows)
    newer = iter([row(f"new{n}", 4 + at, s, t) for n, (at, s, t) in enumerate(later)])

    def between():
        for each in newer:
            write(database, each)
            break

    def fits(each):
        within = (wanted.since or 0) <= each["at"] < (wanted.until or 10**9)
        return within and wanted.fits(each["state"], each["task"], each["key"])

    expected = sorted(((each["at"], each["id"]) for each in rows if fits(each)), reverse=True)
    ids = {each["id"] for each in rows}
    found = turn(database, wanted, limit, between)
    assert [job_id for job_id in found if job_id in ids] == [job_id for _, job_id in expected]
    assert len(set(found)) == len(found)


def test_equal_times_are_in_the_order_of_the_bytes_of_the_ids(database):
    names = ["a", "B", "é", "b", "A", "ä", "-", "_", "Z"]
    write(database, *[row(name, 5) for name in names])
    assert turn(database, Wanted(), 2) == sorted(names, reverse=True)


def test_what_has_no_place_yet_is_left_out_and_another_deployment_has_lists_of_its_own(database):
    write(database, row("a", 1), row("b", None), row("c", 3, prefix="e"))
    assert turn(database, Wanted(), 5) == ["a"]


def test_dead_letters_are_those_that_nobody_has_let_go_of(database):
    given = {"state": "FAILED", "budget": "failures"}
    write(
        database,
        row("a", 1, **given),
        row("b", 2, "FAILED"),
        row("c", 3, **given, forget_at=9),
        row("d", 4, **given, task="u"),
    )
    with database.begin() as connection:
        assert read_dead_places(connection, "d", Wanted()) == [(4, "d"), (1, "a")]
        assert read_dead_places(connection, "d", Wanted(task="t")) == [(1, "a")]
        assert read_dead_places(connection, "d", Wanted(), before=(4, "d")) == [(1, "a")]


@contextmanager
def statements(database):
    """Remember what is read and deleted inside: statements and parameters."""
    seen = []

    def remember(_connection, _cursor, statement, parameters, _context, _many):
        if not statement.startswith("INSERT"):
            seen.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", remember)
    yield seen
    event.remove(database.engine, "before_cursor_execute", remember)


def fill(database: Database) -> None:
    """Write many rows: planners look at how many there are."""
    source, true = f"generate_series(1, {MANY}) AS n", "true"
    if database.url.get_backend_name() == "sqlite":
        series = f"SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {MANY}"
        source, true = f"(WITH RECURSIVE series(n) AS ({series}) SELECT n FROM series)", "1"
    states = " ".join(f"WHEN {n} THEN '{state}'" for n, state in enumerate(State))
    jobs = (
        "INSERT INTO denyut_jobs "
        "(prefix, id, version, state, settled, task, queue, key, budget, forget_at, at, record) "
        f"SELECT 'd', 'j' || n, n, CASE n % {len(State)} {states} END, {true}, 't' || (n % 7), 'q', "
        "CASE WHEN n % 5 = 0 THEN 'k' || n END, CASE WHEN n % 50 = 0 THEN 'crashes' END, "
        f"CASE WHEN n % 3 > 0 THEN n END, n, '{{}}' FROM {source}"
    )
    events = (
        "INSERT INTO denyut_events (prefix, job_id, ms, seq, type, fields) "
        f"SELECT 'd', 'j' || n, n, 0, 'claimed', '{{}}' FROM {source}"
    )
    gone = (
        "INSERT INTO denyut_gone (prefix, id, state, finished_at, gone_at) "
        f"SELECT 'd', 'j' || n, 'FAILED', n, n FROM {source}"
    )
    audit = (
        "INSERT INTO denyut_audit (prefix, id, at, actor, host, pid, action, job_id, outcome, reason, more) "
        "SELECT 'd', CAST(n AS VARCHAR(32)), n, 'me', 'h', 1, 'cancel', 'j' || n, 'done', '', '{}' "
        f"FROM {source}"
    )
    with database.begin() as connection:
        for statement in (jobs, events, gone, audit, "ANALYZE"):
            connection.execute(text(statement))


def read_all(connection) -> None:
    """Every query that the job store answers."""
    for state in (None, State.FAILED):
        for task in (None, "t1"):
            for key in (None, "k5"):
                for since, until in ((None, None), (10, None), (10, 15_000)):
                    wanted = Wanted(state=state, task=task, key=key, since=since, until=until)
                    for before in (None, (9000, "j9000")):
                        read_places(connection, "d", wanted, before=before, limit=101)
            for before in (None, (9000, "j9000")):
                read_dead_places(connection, "d", Wanted(task=task), before=before, limit=101)
    for after in (None, Owed(0, "j5", 1), Owed(7, "j5", 1)):
        read_owed(connection, "d", 5, after=after, limit=100)
    read_records(connection, "d", ["j1", "j2"])
    read_events(connection, "d", "j1")
    prune(connection, "d", 50, now_us=60, limit=5)
    read_gone(connection, "d", ["j1", "j2"])
    prune_gone(connection, "d", 50, limit=5)
    for job_id in (None, "j5"):
        for before in (None, (9000, "9000")):
            read_audit(connection, "d", job_id=job_id, before=before, limit=101)
    prune_audit(connection, "d", 50, limit=5)


def test_every_query_walks_an_index_and_sorts_nothing(database):
    fill(database)
    with statements(database) as seen, database.engine.connect() as connection:
        read_all(connection)
        connection.rollback()
    assert len(seen) > 50
    lite = database.url.get_backend_name() == "sqlite"
    explain = "EXPLAIN QUERY PLAN " if lite else "EXPLAIN "
    bad = ("SCAN denyut", "SCAN jobs", "TEMP B-TREE") if lite else ("Seq Scan", "Sort")
    with database.engine.connect() as connection:
        for statement, parameters in seen:
            plan = connection.exec_driver_sql(explain + statement, parameters).all()
            told = "\n".join(str(each) for each in plan)
            assert not [word for word in bad if word in told], f"{statement}\n{told}"
            # These two must not look at the many rows that are over.
            for words, index in (
                (" IS NULL ORDER BY denyut_jobs.id", "endless"),
                ("budget IS NOT", "dead_at"),
            ):
                assert words not in statement or f"ix_denyut_jobs_{index}" in told, f"{statement}\n{told}"
