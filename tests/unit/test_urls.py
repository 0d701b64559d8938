from __future__ import annotations

import pytest

from denyut.urls import for_celery, for_redis


@pytest.mark.parametrize(
    ("redis", "celery"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("rediss://u:p@h/0?ssl_cert_reqs=required", "rediss://u:p@h/0?ssl_cert_reqs=required"),
        ("unix:///run/a%20b.sock", "redis+socket:///run/a%20b.sock"),
        ("unix:///run/v.sock?db=3", "redis+socket:///run/v.sock?virtual_host=3"),
        ("unix:///run/v.sock?password=p&db=3", "redis+socket:///run/v.sock?password=p&virtual_host=3"),
    ],
)
def test_an_address_has_two_spellings(redis, celery):
    assert for_celery(redis) == celery
    assert for_redis(celery) == redis
    assert for_redis(redis) == redis
    assert for_celery(celery) == celery


@pytest.mark.parametrize(
    ("valkey", "redis"), [("valkey://h/1", "redis://h/1"), ("valkeys://h", "rediss://h")]
)
def test_valkey_is_spelled_redis_for_both(valkey, redis):
    assert for_redis(valkey) == for_celery(valkey) == redis


def test_the_word_in_another_parameter_is_left_alone():
    assert for_celery("unix:///db=1/s?client_name=db=x") == "redis+socket:///db=1/s?client_name=db=x"
