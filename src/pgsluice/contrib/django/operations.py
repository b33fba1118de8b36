"""Migration operations that install and upgrade the schemas."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from pgsluice import schema
from pgsluice.contrib.django.connections import ADAPTER


class InstallPgsluice(Operation):
    """Install the schemas `pgmq`, `pgq`, `pgq_coop` and `sluice`, or upgrade them to the installed release.

    Only in databases of PostgreSQL whose routers allow migrations of the app. Reverting it keeps the schemas with
    their messages; `pgsluice schema uninstall` removes them.
    """

    reversible = True
    atomic = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no models."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, _from_state: Any, _to_state: Any
    ) -> None:
        """Install or upgrade, in the transaction of the migration."""
        connection = schema_editor.connection
        if connection.vendor != "postgresql" or not router.allow_migrate(
            connection.alias, app_label
        ):
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql.append(schema.print_sql())
        else:
            schema.install(ADAPTER.connection(connection))

    def database_backwards(
        self, _app_label: str, schema_editor: Any, _from_state: Any, _to_state: Any
    ) -> None:
        """Change nothing."""

    def describe(self) -> str:
        """Return the text of `manage.py migrate --plan`."""
        return "Install the schemas of pgsluice"
