"""Drop the schemas."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.schema import parts, repair, texts
from pgsluice.schema.ledger import has_legacy, installed_versions
from pgsluice.schema.texts import LEGACY, execute, fetch, pinned, read, run, translated


def uninstall(
    connection: psycopg.Connection[Any], *, drop_data: bool = False, drop_dependents: bool = False
) -> None:
    """Drop the schemas, and the legacy functions if installed.

    Works on what there is of them, such as after a half-done reset. The roles stay, as other databases of the server
    may use them.

    Args:
        connection: Of the schemas' owner; part of its transaction. In autocommit mode, hundreds of queues and logs are
            dropped in several transactions, before the schemas.
        drop_data: Also drop queues, logs and dead letters with data.
        drop_dependents: Also drop dependent objects outside the schemas: views, functions, triggers on captured tables,
            foreign keys.

    Raises:
        NotInstalledError: pgsluice is not installed.
        SchemaError: There is data and `drop_data` is False, or there are dependent objects and `drop_dependents` is
            False, each named; or one transaction cannot hold all the locks. Nothing was dropped.
    """
    installed = installed_versions(connection)
    with translated(), pinned(connection):
        left = () if installed else repair.remains(connection)
        is_whole = not repair.missing(connection)
    if not installed and not left:
        raise NotInstalledError("pgsluice is not installed in this database; nothing was dropped")
    is_idle = parts.is_idle(connection)
    with translated(), pinned(connection):
        holding = fetch(connection, read("contents.sql"))
        if holding and not drop_data:
            names = ", ".join(f"{kind} {name}" for kind, name in holding)
            raise SchemaError(
                f"the schemas hold data ({names}); drop it too with --drop-data, or drop the queues and "
                "logs first"
            )
        dependents = fetch(connection, read("dependents.sql"))
        if dependents and not drop_dependents:
            names = ", ".join(f"{kind} {name}" for kind, name in dependents)
            raise SchemaError(
                f"objects outside the schemas depend on them ({names}); drop them too with "
                "--drop-dependents, or drop them first"
            )
        drops = parts.droppable(connection, is_idle=is_idle) if is_whole else []
    with translated():
        for part in drops:
            with pinned(connection):
                for drop, name in part:
                    execute(connection, drop, name)
        with pinned(connection):
            if has_legacy(installed) or LEGACY in left:
                run(connection, read("legacy/uninstall.sql"))
            dropped = texts.SCHEMAS if installed else left
            fetch(connection, read("uninstalled.sql"), " ".join(dropped))
            run(connection, read("uninstall.sql"))
