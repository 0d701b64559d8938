"""``denyut median``."""

from __future__ import annotations

import json

import pytest

from denyut.median.columns import check_events
from denyut.median.packing import encode
from denyut.median.tasks import apply_message


@pytest.fixture
def stream(desk) -> str:
    good, _ = check_events([(float(n), f"e{n}") for n in range(1, 6)])
    apply_message(desk.pulse, "prices", encode(good))
    return "prices"


def test_quantiles_are_read_each_in_a_row(cli, stream):
    result = cli("median", "read", stream, "-q", "0", "-q", "0.5", "--quantile", "0.9")
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert rows[1:] == [["0.0", "1.0", "5"], ["0.5", "3.0", "5"], ["0.9", "4.6", "5"]]


def test_the_median_is_read_by_default_and_as_json(cli, stream):
    (reading,) = json.loads(cli("median", "read", stream, "--json").stdout)
    assert (reading["quantile"], reading["value"], reading["count"]) == (0.5, 3.0, 5)
    assert reading["updated_at"].startswith("20")


def test_an_empty_stream_has_no_value_and_is_no_error(cli):
    result = cli("median", "read", "nobody")
    assert (result.exit_code, result.stdout.splitlines()[1].split()[:3]) == (0, ["0.5", "-", "0"])


@pytest.mark.parametrize("quantile", ["1.5", "-0.1", "half"])
def test_what_is_no_quantile_is_exit_code_2(cli, quantile):
    result = cli("median", "read", "s", "-q", quantile)
    assert (result.exit_code, "--quantile" in result.stderr) == (2, True)


def test_a_stream_that_contradicts_itself_is_one_line_and_exit_code_1(desk, cli, stream):
    from denyut.median.routing import shard_of

    keys = desk.pulse.keys.stream(stream, shard_of(stream, desk.pulse.settings.median_shards))
    desk.client.delete(keys.lower)
    result = cli("median", "read", stream)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "contradicts itself" in result.stderr


def test_streams_are_listed_with_their_counts(cli, stream):
    assert [line.split() for line in cli("median", "streams").stdout.splitlines()] == [
        ["STREAM", "EVENTS"],
        ["prices", "5"],
    ]
    assert json.loads(cli("median", "streams", "--json").stdout) == {"prices": 5}


def test_no_streams_are_no_error(cli):
    result = cli("median", "streams")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no streams\n")
