"""Configuration of the Django app `pgsluice.contrib.django`."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.core.signals import request_finished


class PgsluiceConfig(AppConfig):
    """Installs the schemas by its migrations, and checks the project."""

    name = "pgsluice.contrib.django"
    label = "pgsluice"
    verbose_name = "pgsluice"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and close connections that our calls found broken, as Django closes others."""
        from pgsluice.contrib.django.checks import check_databases, check_settings
        from pgsluice.contrib.django.connections import close_broken

        request_finished.connect(close_broken)
        checks.register(check_settings)
        checks.register(check_databases, checks.Tags.database)
