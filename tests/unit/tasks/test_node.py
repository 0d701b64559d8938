from __future__ import annotations

import os

import pytest

from denyut.tasks import node as module
from denyut.tasks.node import current_node, new_node


@pytest.fixture(autouse=True)
def no_node(monkeypatch):
    monkeypatch.setattr(module, "_current", None)


def test_a_worker_started_again_under_the_same_name_is_another_owner():
    assert new_node("celery@host").owner != new_node("celery@host").owner


def test_the_owner_names_the_node_and_never_has_the_sign_that_ends_it_in_a_lease():
    assert new_node("odd#name@host").owner.startswith("odd_name@host|")


def test_the_owner_of_the_longest_name_fits_into_a_slot():
    owner = new_node("é" * 300).owner
    assert len(owner.encode()) <= 255
    assert owner.partition("|")[0] == "é" * 100


def test_a_forked_child_has_the_node_of_its_parent():
    parent = new_node("celery@host")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, current_node().owner.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 300).decode() == parent.owner
    os.close(reader)
    os.close(writer)


def test_a_process_that_is_no_worker_has_a_node_too_and_keeps_it():
    assert current_node() is current_node()
    assert current_node().pid == os.getpid()
