"""``denyut worker-median``; that it works is tested as a process."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("shards", ["x", "0,", "0;1", ""])
def test_what_are_no_shards_is_exit_code_2(cli, shards):
    result = cli("worker-median", "--shards", shards)
    assert (result.exit_code, "such as 0,1,2" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--shards", "99"), "shard 99"),
        (("--concurrency", "4"), "one at a time"),
        (("-Q", "other"), "one at a time"),
    ],
)
def test_what_would_break_the_order_of_events_is_refused_in_one_line(cli, args, says):
    result = cli("worker-median", *args)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert says in result.stderr
