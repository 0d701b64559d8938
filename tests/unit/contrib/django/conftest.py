"""Django databases, migrated, and apps whose outbox is in them."""

from __future__ import annotations

from typing import Any

import django_project
import pytest

django_project.configure()


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request, tmp_path) -> str:
    """The address of an empty database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres"))
    return f"sqlite:///{tmp_path / 'django.db'}"


@pytest.fixture
def shop(url) -> Any:
    """Django's connection to its database ``shop``, which is empty."""
    with django_project.database("shop", url) as connection:
        yield connection


@pytest.fixture
def migrated(shop) -> Any:
    """The same, with the tables that Django's migrations make."""
    from django.core.management import call_command

    call_command("migrate", database="shop", verbosity=0)
    return shop
