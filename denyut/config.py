"""Settings: what can be set, of which type, within which range, and what is the default.

Every setting is read from the Celery configuration under its name with the prefix ``denyut_``
(with a Celery namespace such as Django's ``CELERY``: ``CELERY_DENYUT_...``). Unknown names and
bad values are errors that say what is allowed; nothing is guessed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from denyut.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MISFIRE", "Settings", "from_celery", "hide_password"]

#: What may become of a job whose time came while no worker was up.
MISFIRE = ("run", "skip")

_PREFIX = "denyut_"
_REDIS = ("redis://", "rediss://", "unix://", "valkey://", "valkeys://", "redis+socket://")
_DATABASES = ("sqlite:///", "postgresql+psycopg://")
#: How an address may begin, and the same in words.
_ADDRESSES = {
    "url": (_REDIS, f"one of {', '.join(_REDIS)}"),
    "database": (_DATABASES, " or ".join(_DATABASES)),
    "outbox": (
        (*_DATABASES, "django://"),
        f"{' or '.join(_DATABASES)}, or django:// and the alias of one of Django's databases",
    ),
}
_CHOICES = {
    "heartbeat": ("auto", "thread", "process"),
    "misfire": MISFIRE,
    "on_cancel": ("fail", "skip"),
    "on_stall": ("show", "interrupt", "kill"),
    "store_writes": ("through", "behind"),
}
_PASSWORD_PARAMETER = re.compile(r"([?&]password=)[^&#]*")


def _number(default: float | None, low: float, high: float, doc: str, *, unit: str = "") -> Any:
    return field(default=default, metadata={"range": (low, high), "doc": doc, "unit": unit})


def _text(default: str | None, doc: str, *, kind: str) -> Any:
    return field(default=default, metadata={"kind": kind, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The validated settings of one app. Times are in seconds.

    Raises:
        ConfigurationError: naming the setting, the value, and what is allowed.
    """

    redis_url: str | None = _text(
        None,
        "Redis or Valkey that holds the jobs. None: DENYUT_REDIS_URL, then the broker if it is Redis, "
        "then a private server for this project folder (extra 'embedded').",
        kind="url",
    )
    database_url: str | None = _text(
        None,
        "SQL database that keeps a durable copy of every job: sqlite:///... or postgresql+psycopg://... "
        "None: jobs live in Redis alone.",
        kind="database",
    )
    database_timeout: float = _number(
        1.0, 0.05, 60.0, "Longest that anybody waits for the database at once.", unit="s"
    )
    store_writes: str = _text(
        "behind",
        "Who writes to the database: a thread of the workers, within half a second, many jobs at once "
        "(behind); or also the process that enqueues a job, or ends it, at once (through).",
        kind="store_writes",
    )
    store_retention: float = _number(
        2_592_000.0,
        1.0,
        315_360_000.0,
        "How long the database keeps a job after Redis may have forgotten it.",
        unit="s",
    )
    gone_retention: float = _number(
        7_776_000.0,
        1.0,
        3_153_600_000.0,
        "How long the database remembers of a job that it has deleted that there was one, and how it ended.",
        unit="s",
    )
    outbox_url: str | Sequence[str] | None = _text(
        None,
        "Databases with an outbox, which the workers relay: one address, or a list of them, each "
        "sqlite:///... or postgresql+psycopg://... or django://ALIAS. None: no outbox.",
        kind="outbox",
    )
    outbox_interval: float = _number(
        1.0, 0.05, 60.0, "Time between two looks into an outbox that nobody has told of anything.", unit="s"
    )
    audit_retention: float = _number(
        31_536_000.0,
        1.0,
        3_153_600_000.0,
        "How long the database keeps what was done by hand.",
        unit="s",
    )
    prefix: str = _text("denyut", "First part of every key.", kind="prefix")
    partitions: int = _number(16, 1, 1024, "Parts of the keyspace; fixed once jobs exist.")
    redis_timeout: float = _number(5.0, 0.1, 300.0, "Longest wait for one reply of Redis.", unit="s")
    lease_ttl: float = _number(6.0, 0.5, 3600.0, "How long a silent worker keeps its jobs.", unit="s")
    alive_ttl: float | None = _number(
        None, 0.5, 7200.0, "How long one beat keeps a job alive to readers. None: lease_ttl.", unit="s"
    )
    heartbeat: str = _text(
        "auto",
        "Where the heartbeat runs: a thread of the worker's main process, or a process of its own. "
        "auto: a thread with prefork, else a process.",
        kind="heartbeat",
    )
    stall_after: float = _number(
        60.0, 0.5, 86400.0, "No progress and no CPU use for this long: verdict stalled.", unit="s"
    )
    on_stall: str = _text(
        "show",
        "A stalled job: only show it, let go of it and tell its body to stop, or kill its process.",
        kind="on_stall",
    )
    max_runtime: float | None = _number(
        None,
        1.0,
        31_536_000.0,
        "How long the lease of one attempt is renewed: one that runs longer is let go of. None: no end.",
        unit="s",
    )
    max_crashes: int = _number(3, 0, 1000, "Lost workers a job survives; one more and it is dead.")
    interrupt_grace: float = _number(
        3.0,
        0.1,
        3600.0,
        "A body that was told to stop may clean up for so long before its process is killed.",
        unit="s",
    )
    on_cancel: str = _text(
        "fail",
        "A chord whose member was cancelled: let it fail, or skip the member (its body gets None).",
        kind="on_cancel",
    )
    retention: float = _number(
        3600.0, 1.0, 31_536_000.0, "How long a finished job, and its key, are remembered.", unit="s"
    )
    dead_retention: float = _number(
        604_800.0, 1.0, 315_360_000.0, "How long a dead letter is kept for an operator.", unit="s"
    )
    dead_most: int = _number(
        100_000, 1, 100_000_000, "Most dead letters kept, about; the oldest beyond that are purged."
    )
    max_message_bytes: int = _number(
        8 * 1024 * 1024,
        1024,
        512 * 1024 * 1024,
        "Largest body of a job's message, encoded and compressed: a larger one is refused at the door.",
    )
    queued_timeout: float = _number(
        60.0,
        1.0,
        86400.0,
        "A queued job whose message is nowhere is published again after this; "
        "after 10 s if its queue is empty.",
        unit="s",
    )
    suspect_turn: float = _number(
        60.0,
        1.0,
        86400.0,
        "How long a job that shared two dead workers runs before the next of them may.",
        unit="s",
    )
    recovery_interval: float = _number(0.5, 0.05, 60.0, "Time between two looks for lost jobs.", unit="s")
    recovery_rate: int = _number(100, 1, 100_000, "Most jobs one worker recovers per second.")
    misfire: str = _text(
        "run", "A job whose time came while no worker was up: run it late, or skip it.", kind="misfire"
    )
    misfire_grace: float = _number(
        60.0, 1.0, 31_536_000.0, "How late a job may be before it is skipped.", unit="s"
    )
    median_shards: int = _number(16, 1, 1024, "Number of median queues; fixed once streams exist.")
    median_batch: int = _number(1000, 1, 5000, "Most events in one median message.")
    median_queue: str = _text("median", "Median queues are named <this>.<shard>.", kind="prefix")

    def __post_init__(self) -> None:
        for spec in fields(self):
            _validate(spec.name, getattr(self, spec.name), spec.type, spec.metadata, spec.default)
        if self.beat_interval >= self.alive_for:
            raise ConfigurationError(
                f"denyut_alive_ttl={self.alive_ttl!r} must be longer than a beat, "
                f"which is lease_ttl / 3 = {self.beat_interval:g} s"
            )

    @property
    def beat_interval(self) -> float:
        """Seconds between two heartbeats: a third of the lease, so that two may fail."""
        return self.lease_ttl / 3

    @property
    def alive_for(self) -> float:
        """Seconds that one beat keeps a job's ``alive`` key."""
        return self.lease_ttl if self.alive_ttl is None else self.alive_ttl

    @property
    def outbox_urls(self) -> tuple[str, ...]:
        """The addresses of all databases with an outbox."""
        if self.outbox_url is None:
            return ()
        return (self.outbox_url,) if isinstance(self.outbox_url, str) else tuple(self.outbox_url)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings, without the prefix."""
        return tuple(spec.name for spec in fields(cls))

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Settings:
        """Build settings from ``values`` (names without prefix), refusing unknown names."""
        for name in values:
            if name not in cls.names():
                raise ConfigurationError(f"unknown setting {_PREFIX}{name}{_did_you_mean(name)}")
        return cls(**values)


def from_celery(conf: Any) -> Settings:
    """Read and validate the ``denyut_*`` settings of a Celery configuration.

    A value set on ``app.conf`` wins over one in the configuration object, as with Celery's own.

    Args:
        conf: ``app.conf`` of a Celery app (its configuration is loaded if it is not yet), or a mapping.

    Raises:
        ConfigurationError: for an unknown name, a name that Celery would not read here, a name given
            twice in one place, or a bad value.
    """
    if hasattr(conf, "finalize"):
        conf.finalize()  # until then neither the namespace nor the configuration object is there
    prefix: str = getattr(conf, "prefix", None) or ""
    values: dict[str, Any] = {}
    for mapping in getattr(conf, "maps", None) or [conf]:
        for name, value in _read_mapping(mapping, prefix).items():
            values.setdefault(name, value)
    if values.get("redis_url") is None:
        values["redis_url"] = os.environ.get("DENYUT_REDIS_URL") or None
    return Settings.build(values)


def _read_mapping(mapping: Mapping[Any, Any], prefix: str) -> dict[str, Any]:
    spelled: dict[str, str] = {}
    for raw in list(mapping):
        name = _setting_name(raw, prefix) if isinstance(raw, str) else None
        if name is None:
            continue
        if name in spelled:
            raise ConfigurationError(f"settings {spelled[name]} and {raw} are the same one; keep one of them")
        if name not in Settings.names():
            raise ConfigurationError(f"unknown setting {raw}{_did_you_mean(name, prefix)}")
        spelled[name] = raw
    return {name: mapping[raw] for name, raw in spelled.items()}


def _setting_name(raw: str, prefix: str) -> str | None:
    """Return the setting that ``raw`` names, without prefixes; None if it is none of ours."""
    lower = raw.lower()
    bare = lower.removeprefix(prefix.lower())
    if not bare.startswith(_PREFIX):
        elsewhere = lower.removeprefix("celery_")
        if elsewhere.startswith(_PREFIX) and not prefix:
            raise ConfigurationError(
                f'setting {raw} is read only with namespace="CELERY"; did you mean {elsewhere}?'
            )
        return None
    name = bare.removeprefix(_PREFIX)
    readable = {_full_name(name, prefix), _PREFIX + name}
    if not prefix:
        readable.add(raw.upper())
    if raw not in readable:
        under = f" under the namespace {prefix.rstrip('_')}" if prefix else ""
        wanted = _full_name(name, prefix)
        raise ConfigurationError(f"setting {raw} is not read{under}; did you mean {wanted}?")
    return name


def _full_name(name: str, prefix: str) -> str:
    full = prefix + _PREFIX + name
    return full.upper() if prefix.isupper() else full.lower()


def hide_password(url: str) -> str:
    """Return ``url`` with its password replaced by ``***``: URLs are shown, secrets are not.

    A URL too odd to be parsed (a bare ``#`` in the password) loses more than its password.
    """
    shown = _PASSWORD_PARAMETER.sub(r"\1***", url)
    scheme, separator, rest = shown.partition("://") if "://" in shown else ("", "", shown)
    credentials, at, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    secret = f"{user}:***" if colon else credentials
    return f"{scheme}{separator}{secret}{at}{host}"


def _did_you_mean(name: str, prefix: str = "") -> str:
    known = Settings.names()
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {_full_name(close[0], prefix)}?"
    return f"; known are: {', '.join(_full_name(each, prefix) for each in sorted(known))}"


def _validate(name: str, value: Any, kind: Any, meta: Mapping[str, Any], default: Any) -> None:
    if value is None and default is None:
        return
    if "range" in meta:
        _validate_number(name, value, meta["range"], whole=str(kind) == "int", unit=meta["unit"])
    elif meta["kind"] == "outbox" and isinstance(value, list | tuple) and value:
        for each in value:
            _validate_text(name, each, "outbox")
    else:
        _validate_text(name, value, meta["kind"])


def _validate_text(name: str, value: Any, kind: str) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{_PREFIX}{name}={value!r}: must be a non-empty string")
    if (choices := _CHOICES.get(kind)) and value not in choices:
        raise ConfigurationError(f"{_PREFIX}{name}={value!r}: must be one of {', '.join(choices)}")
    if kind == "prefix" and any(c in value for c in "{}* \t\n"):
        raise ConfigurationError(
            f"{_PREFIX}{name}={value!r}: must have no braces, stars or white space (it is part of key names)"
        )
    if kind in _ADDRESSES:
        _validate_address(name, value, kind)


def _validate_address(name: str, value: str, kind: str) -> None:
    begins, words = _ADDRESSES[kind]
    if not _has_valid_port(value):
        wrong = "the port must be a number to 65535"
    elif not value.startswith(begins):
        wrong = f"must be a URL that begins with {words}"
    else:
        return
    raise ConfigurationError(f"{_PREFIX}{name}={hide_password(value)!r}: {wrong}")


def _validate_number(name: str, value: Any, limits: tuple[float, float], *, whole: bool, unit: str) -> None:
    low, high = limits
    right_type = isinstance(value, int) if whole else isinstance(value, int | float)
    allowed = f"{'a whole number' if whole else 'a number'} from {low:g} to {high:g} {unit}".rstrip()
    if isinstance(value, bool) or not right_type or not isfinite(value) or not low <= value <= high:
        raise ConfigurationError(f"{_PREFIX}{name}={value!r}: must be {allowed}")


def _has_valid_port(url: str) -> bool:
    try:
        _ = urlsplit(url).port  # where a port that is none is noticed
    except ValueError:
        return False
    return True
