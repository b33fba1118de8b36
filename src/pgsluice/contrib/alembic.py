"""Install and upgrade the schemas in migrations of Alembic; needs `pip install 'pgsluice[alembic]'`.

In a revision:

    import pgsluice.contrib.alembic  # adds the operation

    def upgrade() -> None:
        op.install_pgsluice()

In `env.py`, so that `alembic revision --autogenerate` leaves our tables alone:

    context.configure(..., include_schemas=True, include_name=include_name)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgsluice import schema
from pgsluice.errors import MissingExtraError

try:
    from alembic.operations import MigrateOperation, Operations

    from pgsluice.contrib.sqlalchemy import ADAPTER
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"migrations of Alembic require the Python package {error.name}; `pip install 'pgsluice[alembic]'`"
    ) from None

# Schemas that belong to pgsluice.
SCHEMAS = frozenset(("pgmq", "pgq", "pgq_coop", "sluice"))


@Operations.register_operation("install_pgsluice")
class InstallPgsluiceOperation(MigrateOperation):
    """Install the schemas, or upgrade them to the installed release, in the transaction of the migration."""

    @classmethod
    def install_pgsluice(cls, operations: Operations) -> None:
        """Install the schemas, or upgrade them to the installed release: `op.install_pgsluice()`.

        Idempotent: call it again in a revision of its own after each upgrade of the package. Offline (`alembic upgrade
        --sql`) it prints the SQL of an installation into an empty database.

        Raises:
            ArgumentError: The engine of the migration does not use psycopg 3, or is asynchronous.
            SchemaError: As for `pgsluice.schema.install`.
        """
        operations.invoke(cls())


@Operations.implementation_for(InstallPgsluiceOperation)
def _install(operations: Operations, _operation: InstallPgsluiceOperation) -> None:
    context = operations.get_context()
    if context.as_sql:
        context.impl.static_output(schema.print_sql())
    else:
        schema.install(ADAPTER.connection(operations.get_bind()))


def include_name(
    name: str | None, type_: str, _parent_names: Mapping[str, Any] | None = None
) -> bool:
    """Return False for the schemas of pgsluice, for `include_name` of `context.configure`.

    Without it `--autogenerate` with `include_schemas=True` drops their tables.
    """
    return type_ != "schema" or name not in SCHEMAS
