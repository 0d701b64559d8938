"""What Django asks of an app."""

from __future__ import annotations

from django.apps import AppConfig

__all__ = ["DenyutConfig"]


class DenyutConfig(AppConfig):  # type: ignore[misc]  # Django ships no types
    """The app ``denyut``, whose migrations make its tables in a Django database."""

    name = "denyut.contrib.django"
    label = "denyut"
    verbose_name = "Denyut"
    default_auto_field = "django.db.models.BigAutoField"
