"""The app is found by its package's name alone."""

from __future__ import annotations

from django.apps import apps


def test_the_package_name_in_installed_apps_is_the_app_denyut():
    found = apps.get_app_config("denyut")
    assert found.name == "denyut.contrib.django"
    assert type(found).__name__ == "DenyutConfig"
