"""Link the dashboard of `PGSLUICE_DASHBOARD_URL` in the index of Django's admin."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from pgsluice.contrib.django.models import DashboardLink


class DashboardAdmin(admin.ModelAdmin):
    """Opens the dashboard, which authenticates its users itself."""

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """Return False: there is nothing to add."""
        return False

    def changelist_view(self, request: HttpRequest, _extra_context: Any = None) -> HttpResponse:
        """Redirect to the dashboard.

        Raises:
            PermissionDenied: The user lacks the permission `pgsluice.view_dashboardlink`.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        return HttpResponseRedirect(settings.PGSLUICE_DASHBOARD_URL)


if getattr(settings, "PGSLUICE_DASHBOARD_URL", None):
    admin.site.register(DashboardLink, DashboardAdmin)
