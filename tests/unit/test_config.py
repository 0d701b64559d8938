from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from denyut.config import Settings, from_celery, hide_password
from denyut.errors import ConfigurationError

NUMBERS = [spec for spec in fields(Settings) if "range" in spec.metadata]
TEXTS = [spec for spec in fields(Settings) if "kind" in spec.metadata]
BY_NAME = {"ids": lambda spec: getattr(spec, "name", str(spec))}


def module(**values: object) -> ModuleType:
    made = ModuleType("settings")
    made.__dict__.update(values)
    return made


def kind(**values: object) -> type:
    return type("Config", (), values)


def read(source: object = None, namespace: str | None = None, **conf: object) -> Settings:
    app = Celery("config", set_as_current=False)
    if source is not None:
        app.config_from_object(source, namespace=namespace)
    app.conf.update(conf)
    return from_celery(app.conf)


# ---- every setting ---------------------------------------------------------------------------------


def test_every_setting_is_a_number_with_a_range_or_a_text_with_a_kind_and_has_a_sentence():
    assert {spec.name for spec in NUMBERS} | {spec.name for spec in TEXTS} == set(Settings.names())
    for spec in fields(Settings):
        assert spec.metadata["doc"].endswith("."), f"{spec.name} has no doc sentence"


@pytest.mark.parametrize("spec", fields(Settings), **BY_NAME)
def test_the_page_of_settings_says_what_the_code_says(spec):
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    row = next((line for line in page.splitlines() if line.startswith(f"| `denyut_{spec.name}` |")), "")
    default = "none" if spec.default is None else str(spec.default)
    assert row.startswith(f"| `denyut_{spec.name}` | {default} | {spec.metadata['doc']}")
    for limit in spec.metadata.get("range", ()):
        assert f"{limit:g}" in row


def test_the_defaults_are_valid():
    assert Settings() == Settings.build({})


def around(spec, value: float) -> dict[str, float]:
    # A short lease goes with any alive_ttl; the rule between the two has a test of its own.
    return {"lease_ttl": 1.0} | {spec.name: value}


@pytest.mark.parametrize("spec", NUMBERS, **BY_NAME)
def test_both_ends_of_a_range_are_allowed(spec):
    for value in spec.metadata["range"]:
        exact = int(value) if spec.type == "int" else value
        assert getattr(Settings(**around(spec, exact)), spec.name) == value


@pytest.mark.parametrize("spec", NUMBERS, **BY_NAME)
@pytest.mark.parametrize("bad", ["6", True, math.nan, math.inf, [1], object], ids=str)
def test_a_number_of_the_wrong_type_is_refused_with_name_value_and_range(spec, bad):
    low, high = spec.metadata["range"]
    with pytest.raises(ConfigurationError) as caught:
        Settings(**{spec.name: bad})
    message = str(caught.value)
    assert message.startswith(f"denyut_{spec.name}={bad!r}: must be ")
    assert f"from {low:g} to {high:g}" in message


@pytest.mark.parametrize("spec", NUMBERS, **BY_NAME)
def test_a_number_out_of_range_is_refused_with_name_value_and_range(spec):
    low, high = spec.metadata["range"]
    for bad in (low - 1, high + 1, -high):
        with pytest.raises(ConfigurationError, match=f"^denyut_{spec.name}=.*from {low:g} to"):
            Settings(**{spec.name: bad})


@pytest.mark.parametrize("spec", [s for s in NUMBERS if s.type == "int"], **BY_NAME)
def test_a_fraction_is_no_whole_number(spec):
    with pytest.raises(ConfigurationError, match=f"denyut_{spec.name}=2.5: must be a whole number"):
        Settings(**{spec.name: 2.5})


@pytest.mark.parametrize("spec", TEXTS, **BY_NAME)
@pytest.mark.parametrize("bad", [3, b"x", "", {"x": 1}], ids=repr)
def test_a_text_of_the_wrong_type_is_refused_with_name_and_value(spec, bad):
    with pytest.raises(
        ConfigurationError, match=re.escape(f"denyut_{spec.name}={bad!r}: must be a non-empty string")
    ):
        Settings(**{spec.name: bad})


@pytest.mark.parametrize("spec", [s for s in fields(Settings) if s.default is not None], **BY_NAME)
def test_none_is_allowed_only_where_it_is_the_default(spec):
    with pytest.raises(ConfigurationError, match=f"denyut_{spec.name}=None"):
        Settings(**{spec.name: None})


@pytest.mark.parametrize("bad", ["a{b}", "a b", "a*", "a\tb"])
def test_a_part_of_a_key_name_has_no_braces_stars_or_white_space(bad):
    for name in ("prefix", "median_queue"):
        with pytest.raises(ConfigurationError, match=f"denyut_{name}=.*no braces, stars or white space"):
            Settings(**{name: bad})


def test_the_databases_with_an_outbox_are_one_address_or_a_list_of_them():
    assert Settings().outbox_urls == ()
    assert Settings(outbox_url="django://default").outbox_urls == ("django://default",)
    both = ["sqlite:///a.db", "postgresql+psycopg://h/d"]
    assert Settings(outbox_url=both).outbox_urls == tuple(both)


@pytest.mark.parametrize(
    "bad", ["mysql://u:secret@h/d", ["sqlite:///a.db", "redis://u:secret@h"], [[]], [None]]
)
def test_what_is_no_database_that_can_have_an_outbox_is_refused_without_showing_the_password(bad):
    with pytest.raises(ConfigurationError, match=r"denyut_outbox_url=.*must be a") as caught:
        Settings(outbox_url=bad)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bad", ["http://h", "localhost:6379", "amqp://u:secret@h", "u:secret@h"])
def test_a_redis_url_of_another_scheme_is_refused_without_showing_the_password(bad):
    with pytest.raises(ConfigurationError, match="must be a URL that begins with one of redis://") as caught:
        Settings(redis_url=bad)
    assert "secret" not in str(caught.value)


def test_the_beat_is_a_third_of_the_lease_and_alive_follows_the_lease():
    settings = Settings(lease_ttl=9.0)
    assert settings.beat_interval == 3.0
    assert settings.alive_for == 9.0
    assert Settings(lease_ttl=9.0, alive_ttl=20.0).alive_for == 20.0


def test_alive_must_be_longer_than_a_beat():
    with pytest.raises(ConfigurationError, match=r"denyut_alive_ttl=3.0 must be longer .* = 3 s"):
        Settings(lease_ttl=9.0, alive_ttl=3.0)


# ---- reading a Celery configuration ----------------------------------------------------------------

CELERY = {"namespace": "CELERY"}
READS = {
    "module, lower case": (module(denyut_lease_ttl=4.0), {}),
    "module, upper case as old Celery settings": (module(DENYUT_LEASE_TTL=4.0), {}),
    "class": (kind(denyut_lease_ttl=4.0), {}),
    "class, upper case": (kind(DENYUT_LEASE_TTL=4.0), {}),
    "class that inherits it": (type("Child", (kind(denyut_lease_ttl=4.0),), {}), {}),
    "instance": (SimpleNamespace(denyut_lease_ttl=4.0), {}),
    "dict": ({"denyut_lease_ttl": 4.0}, {}),
    "beside Celery's old names": (module(CELERY_TASK_SERIALIZER="json", DENYUT_LEASE_TTL=4.0), {}),
    "namespace, module": (module(CELERY_DENYUT_LEASE_TTL=4.0), CELERY),
    "namespace, class": (kind(CELERY_DENYUT_LEASE_TTL=4.0), CELERY),
    "namespace, dict": ({"CELERY_DENYUT_LEASE_TTL": 4.0}, CELERY),
    "namespace of another name": (module(JOBS_DENYUT_LEASE_TTL=4.0), {"namespace": "JOBS"}),
    "namespace with underscore": (module(CELERY_DENYUT_LEASE_TTL=4.0), {"namespace": "CELERY_"}),
    "namespace in lower case": (module(celery_denyut_lease_ttl=4.0), {"namespace": "celery"}),
    "namespace, lower case without it": (module(denyut_lease_ttl=4.0), CELERY),
}


@pytest.mark.parametrize(("source", "how"), READS.values(), ids=READS)
def test_a_setting_is_read_wherever_celery_reads_its_own(source, how):
    assert read(source, **how).lease_ttl == 4.0


@pytest.mark.parametrize(("source", "how"), READS.values(), ids=READS)
def test_a_setting_is_read_when_the_configuration_was_loaded_already(source, how):
    app = Celery("config", set_as_current=False)
    app.config_from_object(source, **how)
    assert app.conf.task_always_eager is False  # loads it
    assert from_celery(app.conf).lease_ttl == 4.0


def test_a_setting_is_read_while_the_configuration_is_being_loaded():
    app = Celery("config", set_as_current=False)
    app.config_from_object(module(CELERY_DENYUT_LEASE_TTL=4.0), namespace="CELERY")
    seen = []
    app.on_after_configure.connect(lambda **_: seen.append(from_celery(app.conf).lease_ttl), weak=False)
    assert app.conf.task_always_eager is False
    assert seen == [4.0]


def test_a_setting_is_read_from_a_django_settings_object():
    from django.conf import UserSettingsHolder, global_settings

    holder = UserSettingsHolder(global_settings)
    holder.CELERY_DENYUT_LEASE_TTL = 4.0
    assert read(holder, **CELERY).lease_ttl == 4.0


@pytest.mark.parametrize("namespace", [None, "CELERY"])
def test_a_setting_is_read_from_what_was_set_on_the_app(namespace):
    empty = module()
    assert read(empty, namespace, denyut_lease_ttl=4.0).lease_ttl == 4.0
    app = Celery("config", set_as_current=False, namespace=namespace)
    app.conf.denyut_lease_ttl = 4.0
    assert from_celery(app.conf).lease_ttl == 4.0
    app = Celery("config", set_as_current=False, changes={"denyut_lease_ttl": 4.0})
    assert from_celery(app.conf).lease_ttl == 4.0
    app = Celery("config", set_as_current=False)
    app.add_defaults({"denyut_lease_ttl": 4.0})
    assert from_celery(app.conf).lease_ttl == 4.0


@pytest.mark.parametrize(("source", "how"), READS.values(), ids=READS)
def test_what_was_set_on_the_app_wins_over_the_configuration_object(source, how):
    assert read(source, denyut_lease_ttl=5.0, **how).lease_ttl == 5.0


def test_an_app_without_settings_has_the_defaults():
    assert read() == Settings()
    assert from_celery({}) == Settings()


REFUSED = {
    "not namespaced": (
        module(DENYUT_LEASE_TTL=4.0),
        CELERY,
        "setting DENYUT_LEASE_TTL is not read under the namespace CELERY; did you mean CELERY_DENYUT_LEASE",
    ),
    "not namespaced, class": (kind(DENYUT_LEASE_TTL=4.0), CELERY, "did you mean CELERY_DENYUT_LEASE_TTL?"),
    "namespaced where there is no namespace": (
        module(CELERY_DENYUT_LEASE_TTL=4.0),
        {},
        'read only with namespace="CELERY"; did you mean denyut_lease_ttl?',
    ),
    "mixed case": (
        module(Denyut_Lease_TTL=4.0),
        {},
        "setting Denyut_Lease_TTL is not read; did you mean denyut_lease_ttl?",
    ),
    "namespace in the wrong case": (
        module(celery_denyut_lease_ttl=4.0),
        CELERY,
        "did you mean CELERY_DENYUT_LEASE_TTL?",
    ),
    "unknown": (
        module(denyut_lease_tll=4.0),
        {},
        "unknown setting denyut_lease_tll; did you mean denyut_lease_ttl?",
    ),
    "unknown under a namespace": (
        module(CELERY_DENYUT_LEASE_TLL=4.0),
        CELERY,
        "unknown setting CELERY_DENYUT_LEASE_TLL; did you mean CELERY_DENYUT_LEASE_TTL?",
    ),
    "unknown and like nothing": (
        module(denyut_xyzzy=1),
        {},
        "unknown setting denyut_xyzzy; known are: denyut_alive_ttl, ",
    ),
    "twice": (
        module(denyut_lease_ttl=4.0, DENYUT_LEASE_TTL=5.0),
        {},
        "settings DENYUT_LEASE_TTL and denyut_lease_ttl are the same one; keep one of them",
    ),
    "bad value": (
        module(CELERY_DENYUT_LEASE_TTL=-1),
        CELERY,
        "denyut_lease_ttl=-1: must be a number from 0.5 to 3600 s",
    ),
}


@pytest.mark.parametrize(("source", "how", "message"), REFUSED.values(), ids=REFUSED)
def test_a_setting_that_nobody_would_read_is_an_error_that_says_what_to_write(source, how, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read(source, **how)


def test_an_unknown_setting_on_the_app_is_an_error():
    with pytest.raises(ConfigurationError, match="unknown setting denyut_retension; did you mean denyut_ret"):
        read(denyut_retension=5.0)


def test_settings_of_others_are_none_of_our_business():
    read(module(my_denyut_flag=1, CELERY_RESULT_EXPIRES=5, denyut="x"), **CELERY)


# ---- the address -----------------------------------------------------------------------------------


def test_the_address_comes_from_the_environment_unless_it_is_set(monkeypatch):
    monkeypatch.setenv("DENYUT_REDIS_URL", "redis://env:1/0")
    assert read().redis_url == "redis://env:1/0"
    assert read(denyut_redis_url="redis://conf:1/0").redis_url == "redis://conf:1/0"
    monkeypatch.setenv("DENYUT_REDIS_URL", "")
    assert read().redis_url is None


def test_a_bad_address_in_the_environment_is_an_error(monkeypatch):
    monkeypatch.setenv("DENYUT_REDIS_URL", "http://x")
    with pytest.raises(ConfigurationError, match="denyut_redis_url='http://x'"):
        read()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:pw@h:6379/0", "redis://:***@h:6379/0"),
        ("rediss://u:p@ss/w:rd@h/0?a=b", "rediss://u:***@h/0?a=b"),
        ("redis://u:p#w?@h", "redis://u:***@h"),
        ("unix:///run/a@b.sock?db=1&password=pw&x=y", "unix:///run/a@b.sock?db=1&password=***&x=y"),
        ("redis://u@h", "redis://u@h"),
        ("u:pw@h", "u:***@h"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert hide_password(url) == shown


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1), st.booleans())
def test_no_password_is_ever_shown(password, as_parameter):
    secret = f"<{password.replace('&', '').replace('#', '')}>" if as_parameter else f"<{password}>"
    url = f"redis://h/0?password={secret}" if as_parameter else f"redis://user:{secret}@host/0"
    assert secret not in hide_password(url)


def test_a_misfire_policy_is_one_of_those_there_are():
    assert read(denyut_misfire="skip").misfire == "skip"
    with pytest.raises(ConfigurationError, match="denyut_misfire='maybe': must be one of run, skip"):
        read(denyut_misfire="maybe")
