"""Configuration of the Django app `pgsluice.contrib.django`."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class PgsluiceConfig(AppConfig):
    """Installs the schemas by its migrations, and checks the project."""

    name = "pgsluice.contrib.django"
    label = "pgsluice"
    verbose_name = "pgsluice"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from pgsluice.contrib.django.checks import check_databases, check_settings

        checks.register(check_settings)
        checks.register(check_databases, checks.Tags.database)
