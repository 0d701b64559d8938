"""From Celery's signals to the heartbeat and recovery of a worker."""

from __future__ import annotations

import atexit
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery import signals

from denyut.tasks.slots import SlotBlock, use_block

if TYPE_CHECKING:
    from denyut.app import Denyut
    from denyut.tasks.slots import SlotState

__all__ = ["WorkerLife", "connect_signals"]

logger = logging.getLogger(__name__)


def connect_signals(pulse: Denyut) -> None:
    """Connect a worker of this app to its heartbeat. Nothing runs before the worker starts."""
    life = WorkerLife(pulse)
    uid = f"denyut-{id(pulse)}"
    signals.worker_init.connect(life.on_init, weak=False, dispatch_uid=f"{uid}-init")
    signals.worker_ready.connect(life.on_ready, weak=False, dispatch_uid=f"{uid}-ready")
    signals.worker_shutdown.connect(life.on_shutdown, weak=False, dispatch_uid=f"{uid}-shutdown")


class WorkerLife:
    """What Denyut runs in one worker's main process, from its start to its end."""

    def __init__(self, pulse: Denyut) -> None:
        self.pulse = pulse
        self.heartbeat: Any = None
        self.recovery: Any = None
        self._worker: Any = None

    def on_init(self, sender: Any = None, **_: Any) -> None:
        """Before the first fork: make the slots and this worker's identity, which children inherit."""
        if getattr(sender, "app", None) is not self.pulse.app:
            return
        from denyut.tasks.node import new_node

        self.pulse.settings  # noqa: B018 - a bad setting must stop the worker here, with its own message
        self._worker = sender
        new_node(str(sender.hostname))
        use_block(SlotBlock.create())

    def on_ready(self, sender: Any = None, **_: Any) -> None:
        """The worker consumes: start heartbeat and recovery."""
        if self._worker is None or getattr(sender, "app", None) is not self.pulse.app:
            return
        from denyut.signals.heartbeat import Heartbeat
        from denyut.tasks.held import held
        from denyut.tasks.node import current_node
        from denyut.tasks.recovery import Recovery
        from denyut.tasks.slots import current_block

        block = current_block()
        assert block is not None
        pulse = self.pulse
        self.recovery = Recovery(pulse)
        about = {
            "pool": str(getattr(self._worker.pool_cls, "__module__", "")).rpartition(".")[2],
            "concurrency": str(self._worker.concurrency),
        }
        self.heartbeat = Heartbeat(
            pulse.settings,
            pulse.keys,
            pulse.store,
            block,
            node=current_node(),
            held=held(),
            on_death=self._on_death,
            about=about,
        )
        self.heartbeat.start()
        self.recovery.start()
        atexit.register(self.stop)

    def on_shutdown(self, **_: Any) -> None:
        """All jobs of this worker have ended: stop."""
        self.stop()

    def stop(self) -> None:
        """Stop heartbeat and recovery. The heartbeat stops last: leases are kept until the very end."""
        if self.recovery is not None:
            self.recovery.stop()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.recovery = self.heartbeat = None

    def _on_death(self, job: SlotState) -> None:
        recovery = self.recovery
        if recovery is not None:
            recovery.child_died(job)
        self._nudge_pool()

    def _nudge_pool(self) -> None:
        """Let Celery replace the dead process now; by itself it may take five seconds."""
        from kombu import VERSION

        pool = getattr(self._worker, "pool", None)
        hub = getattr(getattr(self._worker, "consumer", None), "hub", None)
        maintain = getattr(getattr(pool, "_pool", None), "maintain_pool", None)
        # Calling into the hub from another thread is safe from kombu 5.7 on.
        if hub is not None and maintain is not None and tuple(VERSION[:2]) >= (5, 7):
            with suppress(AttributeError):
                hub.call_soon(maintain)
