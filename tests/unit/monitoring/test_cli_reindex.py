"""``denyut jobs reindex``."""

from __future__ import annotations

import json


def test_it_says_how_many_jobs_were_put_back(desk, cli):
    desk.scheduled("lost", 60)
    desk.scheduled("known", 60)
    partition = desk.pulse.keys.partition(desk.pulse.keys.partition_of("lost"))
    desk.client.zrem(partition.schedule, "lost")
    assert cli("jobs", "reindex").stdout == "1 job(s) were put back\n"
    assert json.loads(cli("jobs", "reindex", "--json").stdout) == {"put_back": 0}
    assert len(desk.pulse.jobs.list(state="SCHEDULED").jobs) == 2
