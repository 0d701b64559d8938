"""The soak: what a job leaves behind for ever is nothing, and growth is seen where there is some."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.soak import Sample, growth, soak
from bench.through import ThroughScripts, ThroughWorker

SAMPLE = Sample(1000, 1.0, 5000, 10.0, 40, 2.0, 30, 80.0)


@pytest.mark.parametrize(("through", "jobs"), [(ThroughScripts, 20_000), (ThroughWorker, 500)])
def test_keys_and_memory_are_back_where_they_were_when_the_retention_is_over(
    valkey_server, valkey, tmp_path, through, jobs
):
    way = through(valkey_server, tmp_path, 1.0)
    try:
        samples = soak(way, valkey_server, jobs, parts=2)
    finally:
        way.close()
    assert growth(samples) == [], samples
    first, second = samples
    assert second.rest_keys == first.rest_keys < 120
    assert first.load_keys > 2 * first.rest_keys, "there was a load"


def test_what_is_flat_has_not_grown():
    assert growth([SAMPLE] * 4) == []


@pytest.mark.parametrize("name", ["rest_keys", "counters", "rest_mib", "rss_mib"])
def test_growth_of_any_kind_is_seen(name):
    more = replace(SAMPLE, **{name: getattr(SAMPLE, name) * 2})
    assert [text for text in growth([SAMPLE, SAMPLE, SAMPLE, more]) if text.startswith(name)]
