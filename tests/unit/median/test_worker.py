from __future__ import annotations

from typing import Any

import pytest

from denyut.errors import ConfigurationError
from denyut.median.worker import command_line, run


def option(line: list[str], name: str) -> str:
    return line[len(line) - line[::-1].index(name)]


def test_all_shards_are_consumed_one_message_at_a_time(pulse: Any) -> None:
    line = command_line(pulse(denyut_median_shards=3).app)
    assert line[0] == "worker"
    assert option(line, "--queues") == "median.0,median.1,median.2"
    assert option(line, "--concurrency") == "1"
    assert option(line, "--pool") == "prefork"
    assert option(line, "--prefetch-multiplier") == "1"
    assert option(line, "--hostname") == "median@%h"


def test_some_shards_make_a_worker_of_another_name(pulse: Any) -> None:
    line = command_line(pulse(denyut_median_queue="mq").app, [2, 5], "debug")
    assert option(line, "--queues") == "mq.2,mq.5"
    assert option(line, "--hostname") == "median-2-5@%h"
    assert option(line, "--loglevel") == "debug"


def test_further_options_go_to_celery(pulse: Any) -> None:
    line = command_line(pulse().app, extra=["--hostname", "mine@%h", "--without-gossip"])
    assert option(line, "--hostname") == "mine@%h"
    assert "--without-gossip" in line


@pytest.mark.parametrize(
    "extra", ["-c4", "-c", "--concurrency=4", "--concurrency", "--autoscale=4,1", "-Q", "-Qa"]
)
def test_an_option_that_would_break_the_order_is_refused(pulse: Any, extra: str) -> None:
    with pytest.raises(ConfigurationError, match="one at a time"):
        command_line(pulse().app, extra=[extra])


@pytest.mark.parametrize("shards", [[16], [-1], ["1"], [True], []])
def test_a_shard_that_does_not_exist_is_refused(pulse: Any, shards: Any) -> None:
    with pytest.raises(ConfigurationError, match="shard"):
        command_line(pulse().app, shards)


def test_run_hands_the_command_line_to_celery(pulse: Any) -> None:
    made = pulse()
    seen: list[Any] = []
    made.app.worker_main = seen.append
    run(made.app, [1])
    assert seen == [command_line(made.app, [1])]
