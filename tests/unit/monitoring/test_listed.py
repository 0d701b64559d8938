"""Which jobs Redis lists itself."""

from __future__ import annotations

from denyut.monitoring.listed import read_listed


def test_jobs_of_every_index_and_of_all_partitions_are_found_whatever_their_record(desk):
    ids = [f"j{n}" for n in range(40)]
    for n, job_id in enumerate(ids):
        if n % 5:
            desk.index(("done", "queued", "schedule", "leases")[n % 5 - 1], job_id, n)
    assert read_listed(desk.pulse, desk.client, ids) == {job_id for n, job_id in enumerate(ids) if n % 5}


def test_of_no_jobs_nothing_is_asked(desk):
    assert read_listed(desk.pulse, desk.client, []) == set()
