"""A short kill campaign: hundreds of jobs, seeded kills everywhere, and PostgreSQL as the judge.

The long one is ``make campaign``.
"""

from __future__ import annotations

import pytest
from campaign.conduct import Campaign
from campaign.report import table

#: More often than in a long campaign, so that a short one has enough of it.
RATES = {"": 0.003, "ack": 0.001, "recover": 0.005, "bury": 0.2, "failure": 0.1, "in body": 0.02}


@pytest.mark.timeout(240)
def test_every_job_takes_effect_once_or_is_a_dead_letter_whatever_is_killed(
    valkey_server, valkey, postgres, tmp_path
):
    campaign = Campaign(
        valkey_server, postgres, tmp_path, seed=7, size=150, every=10, lease_ttl=2.0, worker_rates=RATES
    )
    campaign.run(180)
    told = table(campaign)
    assert campaign.verdict.violations == [], told
    poison = sum(job.kind == "poison" for job in campaign.plan.jobs.values())
    assert len(campaign.verdict.dead) >= poison > 0, told
    assert campaign.duplicates > 0, told
    outside = sum(campaign.chaos.kills.values())
    assert outside > 0, told
    assert campaign.kills.total() - outside > 4 * poison, told
