"""``Denyut(app)``: makes the tasks of a Celery app into jobs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from denyut.config import Settings, from_celery, hide_password
from denyut.errors import ConfigurationError
from denyut.keys import Keys
from denyut.store import Store

if TYPE_CHECKING:
    from celery import Celery

    from denyut.database.engine import Database
    from denyut.median.api import Median
    from denyut.monitoring.jobs import Jobs
    from denyut.monitoring.locks import Locks
    from denyut.tasks.locks.keeper import Keeper
    from denyut.tasks.locks.lock import Lock
    from denyut.tasks.outbox.outbox import Outbox
    from denyut.tasks.saving.saving import Saving

__all__ = ["Denyut"]

_REDIS_BROKERS = ("redis://", "rediss://", "redis+socket://", "valkey://", "valkeys://")


class Denyut:
    """Denyut for one Celery app; also reachable as ``app.denyut``.

    Args:
        app: any Celery app. Its ``denyut_*`` settings are read when first needed, or now if the app
            is configured already.
        all_tasks: make every task of the app (never Celery's own ``celery.*``) a job. With False
            only tasks declared with ``base=JobTask`` are.

    Raises:
        ConfigurationError: for a bad setting, or if the app has a Denyut already.
    """

    def __init__(self, app: Celery, *, all_tasks: bool = True) -> None:
        from denyut.default_broker import default_broker
        from denyut.median.tasks import register
        from denyut.signals.lifecycle import connect_signals
        from denyut.tasks.accumulate import register as register_accumulate
        from denyut.tasks.backend import mix_into_backend
        from denyut.tasks.door import install_door
        from denyut.tasks.mixing import mix_into_tasks
        from denyut.tasks.purged import install_purge

        if getattr(app, "denyut", None) is not None:
            raise ConfigurationError(f"{app!r} has a Denyut already; use app.denyut")
        self.app = app
        self.all_tasks = all_tasks
        app.denyut = self
        default_broker(self)
        if app.configured:
            _ = self.settings
        mix_into_tasks(self)
        mix_into_backend(self)
        install_door(self)
        install_purge(self)
        register(self)
        register_accumulate(self)
        connect_signals(self)

    @cached_property
    def settings(self) -> Settings:
        """The validated settings. Raises ConfigurationError."""
        return from_celery(self.app.conf)

    @cached_property
    def keys(self) -> Keys:
        """Builder of key names."""
        return Keys.of(self.settings)

    @cached_property
    def store(self) -> Store:
        """The connection to Redis, opened at first use."""
        return Store(self.redis_url, timeout=self.settings.redis_timeout)

    @cached_property
    def database(self) -> Database:
        """The job store's database, opened at first use.

        Raises:
            ConfigurationError: if there is none.
        """
        from denyut.database.engine import Database

        url = self.settings.database_url
        if url is None:
            raise ConfigurationError("there is no job store: denyut_database_url is not set")
        return Database(url, timeout=self.settings.database_timeout)

    @cached_property
    def saving(self) -> Saving:
        """The writes of this process to the job store."""
        from denyut.tasks.saving.saving import Saving

        return Saving(self)

    @cached_property
    def outbox(self) -> Outbox:
        """Enqueueing with a transaction of the application: ``enqueue``."""
        from denyut.tasks.outbox.outbox import Outbox

        return Outbox(self)

    @cached_property
    def jobs(self) -> Jobs:
        """Reading jobs: ``get``, ``list``, ``watch``."""
        from denyut.monitoring.jobs import Jobs

        return Jobs(self)

    @cached_property
    def median(self) -> Median:
        """Recording events and reading medians."""
        from denyut.median.api import Median

        return Median(self)

    def lock(
        self, name: str, ttl: float | None = None, *, timeout: float | None = None, renew: bool = True
    ) -> Lock:
        """Return a lock for your own code: ``with app.denyut.lock("import:7") as lock: ...``.

        One holder at a time over all processes and hosts, with a fence (``lock.fence``) for what it
        protects, and ``lock.check()``. In a job the worker's heartbeat renews it, elsewhere a thread of
        this process; if its process dies it is free within its TTL. See docs/locks.md.

        Args:
            name: any text of 1 to 200 bytes of UTF-8.
            ttl: seconds that it outlives its holder; at least ``denyut_lease_ttl``, which is the default,
                or any from 0.05 without renewal.
            timeout: seconds to wait for it; 0: try once; None: for ever.
            renew: renew it while it is held. With False it is a light lock, for what takes less than its TTL.

        Raises:
            InvalidLock: for a name, TTL or timeout that is none.
        """
        from denyut.tasks.locks.lock import Lock

        return Lock(self, name, ttl=ttl, timeout=timeout, renew=renew)

    @cached_property
    def locks(self) -> Locks:
        """The locks that are held: ``list``, ``get``, ``release`` by hand."""
        from denyut.monitoring.locks import Locks

        return Locks(self)

    @cached_property
    def lock_keeper(self) -> Keeper:
        """The thread that renews the locks of this process that belong to no job."""
        from denyut.tasks.locks.keeper import Keeper

        return Keeper(self.settings, self.keys, self.store)

    def redis_url(self) -> str:
        """Return the URL of the Redis that holds the jobs.

        In this order: the setting, ``DENYUT_REDIS_URL``, the app's broker if that is Redis (the first
        of several), the embedded server of the project folder if there is no broker (started if
        nobody has yet).

        Raises:
            ConfigurationError: if the broker is another: then hosts that share it must share a Redis
                too, which only the user can name.
            EmbeddedUnavailable: if there is none and a private one cannot be started.
        """
        if self.settings.redis_url:
            return self.settings.redis_url
        broker: Any = self.app.conf.broker_url
        first = broker[0] if isinstance(broker, list | tuple) and broker else broker
        first = first.partition(";")[0] if isinstance(first, str) else ""
        if first.startswith(_REDIS_BROKERS):
            return str(first)
        if first:
            raise ConfigurationError(
                f"the broker {hide_password(first)} is no Redis, so denyut_redis_url (or DENYUT_REDIS_URL) "
                "must say which Redis or Valkey holds the jobs"
            )
        from denyut.embedded import ensure_server

        return ensure_server().url

    def __repr__(self) -> str:
        return f"<Denyut of {self.app.main!r}>"
