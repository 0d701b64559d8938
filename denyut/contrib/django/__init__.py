"""The Django app of Denyut: ``INSTALLED_APPS = [..., "denyut.contrib.django"]``."""
