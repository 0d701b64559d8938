from __future__ import annotations

import os
import signal

from support import is_running, wait_until

from denyut.signals.orphan import die_with


def grandchild_of(parent_ends: bool):
    """Fork a parent that forks a child that calls die_with; return both pids."""
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        me = os.getpid()
        child = os.fork()
        if child == 0:
            if parent_ends:
                while os.getppid() == me:
                    pass
            die_with(me)
            os.write(writer, f"{os.getpid()}\n".encode())
            signal.pause()
            os._exit(1)
        if parent_ends:
            os.write(writer, f"{child}\n".encode())
            os._exit(0)
        signal.pause()
        os._exit(1)
    pid = int(os.read(reader, 20))
    os.close(reader)
    os.close(writer)
    return parent, pid


def test_a_child_is_killed_when_its_parent_is():
    parent, child = grandchild_of(parent_ends=False)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    wait_until(lambda: not is_running(child), what="the child to be killed")


def test_a_child_whose_parent_is_gone_already_ends_itself():
    parent, child = grandchild_of(parent_ends=True)
    os.waitpid(parent, 0)
    wait_until(lambda: not is_running(child), what="the child to end itself")
