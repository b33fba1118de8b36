"""The dashboard's entry in Django's admin."""

from __future__ import annotations

from django.db import models


class DashboardLink(models.Model):
    """A link of the admin's index, for users with the permission `pgsluice.view_dashboardlink`. It has no table."""

    class Meta:
        """Names of the entry."""

        managed = False
        default_permissions = ("view",)
        verbose_name = verbose_name_plural = "dashboard"
