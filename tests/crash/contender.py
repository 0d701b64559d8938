"""A process that takes a lock again and again, and tells a judge (a Unix socket) when it is inside."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing

from celery import Celery

from denyut import Denyut
from denyut.errors import LockLost


def main(url: str, prefix: str, ttl: str, judge: str) -> None:
    app = Celery("contender", set_as_current=False)
    app.conf.update(broker_url=url, denyut_prefix=prefix, denyut_lease_ttl=float(ttl))
    pulse = Denyut(app)
    while True:
        try:
            with pulse.lock("a") as lock, closing(socket.socket(socket.AF_UNIX)) as told:
                told.connect(judge)
                for _ in range(5):
                    lock.check()
                    say(told, f"{os.getpid()} {lock.fence}")
                say(told, "out")
        except LockLost:
            print("lost", flush=True)


def say(told: socket.socket, word: str) -> None:
    """Send one line, and go on when the judge has heard it."""
    told.sendall(f"{word}\n".encode())
    if told.recv(1) != b".":
        raise SystemExit("the judge has gone")


if __name__ == "__main__":
    main(*sys.argv[1:])
