"""Who acts."""

from __future__ import annotations

import getpass
from socket import gethostname

from denyut.tasks import actor as module
from denyut.tasks.actor import actor


def test_it_is_the_user_and_the_host():
    assert actor() == f"{getpass.getuser()}@{gethostname()}"


def test_a_user_without_a_name_is_one_too(monkeypatch):
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(module, "getuser", nobody)
    assert actor() == f"user@{gethostname()}"
