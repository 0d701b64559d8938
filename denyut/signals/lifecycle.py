"""From Celery's signals to the heartbeat and recovery of a worker."""

from __future__ import annotations

import atexit
import logging
import os
from socket import gethostname
from typing import TYPE_CHECKING, Any

from celery import signals

from denyut.errors import ConfigurationError
from denyut.signals.control import install_control
from denyut.signals.ended import was_ended
from denyut.signals.step import add_step
from denyut.signals.unacked import install_unacked
from denyut.signals.unknown import leave_unknown
from denyut.tasks.interrupt import allow, allow_threads
from denyut.tasks.leaving import before_leaving
from denyut.tasks.slots import SlotBlock, current_block, use_block

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.signals.handover import Handover
    from denyut.signals.heartbeat import Heartbeat
    from denyut.signals.remote import RemoteHeartbeat
    from denyut.signals.wake import Wake
    from denyut.tasks.outbox.relay import Relay
    from denyut.tasks.recovery import Recovery
    from denyut.tasks.saving.applier import Applier
    from denyut.tasks.schedule import Schedule
    from denyut.tasks.slots import SlotState

__all__ = ["WorkerLife", "connect_signals"]

#: Pools whose bodies run in the main thread of their process, where a signal reaches them.
_MAIN_THREAD_POOLS = {"prefork", "solo"}
#: Pools in which what is called a thread runs only when the others give way.
_GREEN_POOLS = {"gevent", "eventlet"}


def connect_signals(pulse: Denyut) -> None:
    """Connect a worker of this app to its heartbeat. Nothing runs before the worker starts."""
    life = WorkerLife(pulse)
    for signal, handler in (
        (signals.worker_init, life.on_init),
        (signals.worker_process_init, life.on_process_init),
        (signals.worker_shutting_down, life.on_shutting_down),
        (signals.worker_shutdown, life.on_shutdown),
    ):
        signal.connect(handler, weak=False, dispatch_uid=f"denyut-{id(pulse)}-{handler.__name__}")
    add_step(pulse.app, life.on_started, life.drain, life.stop)
    install_unacked(pulse.app)


logger = logging.getLogger(__name__)


class WorkerLife:
    """What Denyut runs in one worker's main process, from its start to its end."""

    def __init__(self, pulse: Denyut) -> None:
        self.pulse = pulse
        self.heartbeat: Heartbeat | RemoteHeartbeat | None = None
        self.recovery: Recovery | None = None
        self.schedule: Schedule | None = None
        self.handover: Handover | None = None
        self.applier: Applier | None = None
        self.relays: list[Relay] = []
        self._worker: Any = None
        self._wake: Wake | None = None
        self._pid = 0

    def on_init(self, sender: Any = None, **_: Any) -> None:
        """Before the first fork: make the slots and this worker's identity, which children inherit."""
        if getattr(sender, "app", None) is not self.pulse.app:
            return
        from denyut.tasks.node import new_node
        from denyut.tasks.scheduled import install_scheduled

        try:
            from denyut.signals.wake import Wake

            self.pulse.redis_url()  # a bad setting, or none, must stop the worker here, with its own message
            if self.pulse.keys.stored:
                self.pulse.saving.prepare()
            self.relays = self._make_relays()
            _refuse_spawn(sender)
            _refuse_starving(sender, self.pulse.settings.heartbeat)
            use_block(SlotBlock.create())
            allow(_pool_name(sender) in _MAIN_THREAD_POOLS)
            allow_threads(_pool_name(sender) == "thread")
            self._wake = Wake()
        except (ConfigurationError, OSError, ImportError) as exc:
            # Celery logs and forgets what a signal handler raises; without a heartbeat every long job
            # would be taken for dead.
            raise SystemExit(f"denyut: this worker cannot start: {exc}") from exc
        new_node(str(sender.hostname))
        install_scheduled()
        self._worker, self._pid = sender, os.getpid()

    def on_process_init(self, **_: Any) -> None:
        """A pool process has started: it takes its slot, so that its death is noticed from now on."""
        block = current_block()
        if self._worker is None or self._pid == os.getpid() or block is None or self._wake is None:
            return
        from billiard import current_process

        from denyut.signals.orphan import die_with

        die_with(self._pid)
        # Their threads are the parent's.
        self.heartbeat = self.recovery = self.schedule = self.handover = self.applier = None
        self.relays = []
        block.slot(getattr(current_process(), "index", 0) or 0).enter()
        self._wake.set()

    def on_started(self, worker: Any) -> None:
        """The pool has started, the worker is about to consume: start heartbeat and recovery."""
        block = current_block()
        if self._worker is not worker or self.heartbeat:
            return
        assert block is not None
        assert self._wake is not None
        from denyut.signals.handover import Handover
        from denyut.tasks.recovery import Recovery
        from denyut.tasks.schedule import Schedule

        pulse = self.pulse
        self.recovery = Recovery(pulse, self._revive)
        self.schedule = Schedule(pulse, events=self._is_watched)
        self.handover = Handover(self._child_died, self._nudge_pool)
        self.heartbeat = self._make_heartbeat(block, self._wake, self.handover)
        install_control(worker, self.heartbeat.hurry)
        leave_unknown(self.pulse, worker)
        if pulse.keys.stored:
            from denyut.tasks.saving.applier import Applier

            self.applier = Applier(pulse)
            self.applier.start()
        for part in (self.handover, self.heartbeat, self.recovery, self.schedule, *self.relays):
            part.start()
        before_leaving(self.heartbeat.drain)
        atexit.register(self.stop)

    def _make_relays(self) -> list[Relay]:
        """Make one relay for each database with an outbox. Raises ConfigurationError."""
        if not self.pulse.settings.outbox_urls:
            return []
        from denyut.tasks.outbox.places import places
        from denyut.tasks.outbox.relay import Relay

        return [Relay(self.pulse, place) for place in places(self.pulse)]

    def _make_heartbeat(
        self, block: SlotBlock, wake: Wake, handover: Handover
    ) -> Heartbeat | RemoteHeartbeat:
        from denyut.tasks.held import held
        from denyut.tasks.node import current_node

        pulse, where = self.pulse, self.pulse.settings.heartbeat
        common: dict[str, Any] = {
            "node": current_node(),
            "held": held(),
            "wake": wake,
            "on_death": handover.give,
            "about": self._about(),
            "revive": self._revive,
        }
        if where == "thread" or (where == "auto" and _pool_name(self._worker) == "prefork"):
            from denyut.signals.heartbeat import Heartbeat

            return Heartbeat(pulse.settings, pulse.keys, pulse.store, block, **common)
        from denyut.signals.remote import RemoteHeartbeat

        return RemoteHeartbeat(pulse.settings, pulse.store, block, **common)

    def on_shutting_down(self, sender: Any = None, **_: Any) -> None:
        """The worker is told to end, by a signal: jobs that do not get to their end are nobody's crash."""
        if self._worker is not None and sender == self._worker.hostname:
            self.drain()

    def drain(self) -> None:
        """Tell Redis that this worker ends its jobs. May be called twice, and in a signal handler."""
        if self._pid == os.getpid() and (heartbeat := self.heartbeat) is not None:
            heartbeat.drain_all()

    def on_shutdown(self, sender: Any = None, **_: Any) -> None:
        """The worker says that it is down. If it is not quite, leases are kept until the process ends."""
        block = current_block()
        if sender is self._worker and block is not None and not any(block.active()):
            self.stop()

    def stop(self) -> None:
        """Stop everything. The heartbeat stops last: leases are kept until the very end."""
        if self._pid != os.getpid():
            return
        for part in (*self.relays, self.schedule, self.recovery, self.handover, self.applier, self.heartbeat):
            if part is not None:
                part.stop()
        self.relays = []
        self.schedule = self.recovery = self.handover = self.heartbeat = self.applier = None
        atexit.unregister(self.stop)

    def _is_watched(self) -> bool:
        consumer = getattr(self._worker, "consumer", None)
        return bool(getattr(getattr(consumer, "event_dispatcher", None), "enabled", False))

    def _revive(self) -> None:
        """Start a thread again that has died, by whatever means."""
        for part in (
            *(self.handover, self.heartbeat, self.recovery, self.schedule, self.applier),
            *self.relays,
        ):
            if part is not None and part.revive():
                logger.error("the thread %s had died; it was started again", part.thread_name)

    def _child_died(self, job: SlotState) -> None:
        recovery, heartbeat = self.recovery, self.heartbeat
        if recovery is None or heartbeat is None:
            return  # it is over here; any other recoverer finds the job when its lease has lapsed
        processes = getattr(getattr(getattr(self._worker, "pool", None), "_pool", None), "_pool", None)
        drained = was_ended(job.pid, processes or (), lambda: heartbeat.draining)
        recovery.child_died(job, drained=drained)

    def _about(self) -> dict[str, str]:
        return {
            "hostname": gethostname(),
            "pool": _pool_name(self._worker),
            "concurrency": str(self._worker.concurrency),
        }

    def _nudge_pool(self) -> None:
        """Let Celery replace the dead process now; by itself it may take five seconds."""
        from kombu import VERSION

        pool = getattr(self._worker, "pool", None)
        hub = getattr(getattr(self._worker, "consumer", None), "hub", None)
        maintain = getattr(getattr(pool, "_pool", None), "maintain_pool", None)
        # Calling into the hub from another thread is safe from kombu 5.7 on.
        if hub is not None and maintain is not None and tuple(VERSION[:2]) >= (5, 7):
            hub.call_soon(maintain)


def _pool_name(worker: Any) -> str:
    from celery.concurrency import get_implementation

    return str(get_implementation(worker.pool_cls).__module__).rpartition(".")[2]


def _refuse_spawn(worker: Any) -> None:
    if getattr(worker, "pool_start_method", "fork") == "spawn" and "prefork" in str(worker.pool_cls):
        raise ConfigurationError(
            "worker_pool_start_method='spawn': pool processes that are not forked do not share the memory "
            "that the heartbeat reads; use 'fork'"
        )


def _refuse_starving(worker: Any, where: str) -> None:
    pool = _pool_name(worker)
    if where == "thread" and pool in _GREEN_POOLS:
        raise ConfigurationError(
            f"denyut_heartbeat='thread': with the pool {pool} a job that does not give way would starve it, "
            "and lose its lease; use 'auto'"
        )
