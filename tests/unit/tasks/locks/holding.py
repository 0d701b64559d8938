"""A process that takes locks; what it does it tells on its standard output, or in a file."""

from __future__ import annotations

import os
import sys
import time

from celery import Celery

from denyut import Denyut
from denyut.errors import DenyutError


def main(url: str, prefix: str, lease_ttl: str, what: str, name: str, *rest: str) -> None:
    app = Celery("holding", set_as_current=False)
    app.conf.update(broker_url=url, denyut_prefix=prefix, denyut_lease_ttl=float(lease_ttl))
    pulse = Denyut(app)
    if what == "hold":
        hold(pulse, name)
    else:
        contend(pulse, name, *rest)


def hold(pulse: Denyut, name: str) -> None:
    """Hold a lock until a line comes; say what became of it."""
    lock = pulse.lock(name)
    lock.acquire()
    say(lock.fence)
    for line in sys.stdin:
        try:
            getattr(lock, line.strip())()
            say("ok")
        except DenyutError as exc:
            say(type(exc).__name__)


def contend(pulse: Denyut, name: str, times: str, diary: str) -> None:
    """Take a lock again and again, and write into the diary, which all share, when one is inside."""
    fd = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    say("ready")
    sys.stdin.readline()
    for number in range(int(times)):
        with pulse.lock(name, timeout=60) as lock:
            os.write(fd, f"in {os.getpid()} {lock.fence}\n".encode())
            if number % 50 == 0:
                time.sleep(0.002)
            lock.check()
            os.write(fd, f"out {os.getpid()} {lock.fence}\n".encode())
    say("done")


def say(word: object) -> None:
    print(word, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
