"""A shop whose orders are shipped through an outbox. As a program it takes orders, and may kill itself.

``OUTBOX_KILL`` names the step at which the process ends itself with SIGKILL: of a producer ``before`` or
``after`` its ``write``, its ``commit`` or its ``poke``; of a relay the same of ``take``, ``deliver``,
``remember``, ``drop`` or ``forget``, once it has a row in hand.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from celery import Celery
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from denyut import Denyut

URL = os.environ["OUTBOX_URL"]

app = Celery("posting", set_as_current=False)
app.conf.update(
    broker_url=os.environ["CELERY_BROKER_URL"],
    result_backend=os.environ["CELERY_BROKER_URL"],
    task_default_queue="posting",
    denyut_outbox_url=URL if os.environ.get("OUTBOX_RELAY", "1") else None,
    denyut_outbox_interval=0.5,
    denyut_database_timeout=10.0,
    denyut_lease_ttl=2.0,
)
Denyut(app)


def engine() -> Any:
    options = {"timeout": 20.0} if URL.startswith("sqlite") else {}
    return create_engine(URL, poolclass=NullPool, connect_args=options)


@app.task(name="apps.posting.ship")  # also where this module is the program
def ship(order: int) -> int:
    """The effect, in a table that nobody keeps unique: twice is seen."""
    with engine().begin() as connection:
        connection.execute(text("INSERT INTO shipped (n) VALUES (:n)"), {"n": order})
    return order


def sell(order: int) -> str:
    """Take one order, and ship it if that is committed."""
    with Session(engine()) as session:
        session.execute(text("INSERT INTO orders (n) VALUES (:n)"), {"n": order})
        job = app.denyut.outbox.enqueue(session, ship.s(order), idempotency_key=f"order:{order}")
        session.commit()
        return str(job.id)


def die_at(point: str) -> None:
    """Wrap the step that ``point`` names, such as ``after drop``."""
    when, _, step = point.partition(" ")
    if step in ("write", "commit", "poke"):
        from denyut.tasks.outbox.poke import Poker
        from denyut.tasks.outbox.session import SessionWriter

        holder: Any = {"write": SessionWriter, "commit": Session, "poke": Poker}[step]
        _wrap(holder, step, when, has_rows=lambda *_: True)
        return
    from denyut.tasks.outbox import relay

    _wrap(relay, step, when, has_rows=lambda args, answer: bool(answer if step == "take" else args[-1]))


def _wrap(holder: Any, name: str, when: str, has_rows: Any) -> None:
    real = getattr(holder, name)

    def step(*args: Any, **options: Any) -> Any:
        if when == "before" and has_rows(args, None):
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(*args, **options)
        if when == "after" and has_rows(args, answer):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(holder, name, step)


point = os.environ.get("OUTBOX_KILL")
if point and "pytest" not in sys.modules:  # the tests import this, too, under the worker's environment
    die_at(point)

if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        sell(number)
        print(number, flush=True)
