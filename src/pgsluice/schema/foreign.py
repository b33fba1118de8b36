"""Foreign objects in our schemas, which an installation must not run with its rights."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import SchemaError
from pgsluice.schema.ledger import has_legacy, installed_versions, resolvable_signatures
from pgsluice.schema.texts import fetch, read


def foreign_objects(connection: psycopg.Connection[Any]) -> list[tuple[str, str, str, bool]]:
    """Return the objects in our schemas that are not of this release: object, problem, solution, True if refused."""
    installed = installed_versions(connection)
    if not installed:
        return []
    released = resolvable_signatures(connection, legacy=has_legacy(installed))
    return fetch(connection, read("foreign.sql"), released)


def refuse_foreign(connection: psycopg.Connection[Any]) -> None:
    """Raise if another role could run code with the installer's rights."""
    refused = [
        f"{what} {why}, who could run code with the installer's rights through it; {hint}"
        for what, why, hint, is_refused in foreign_objects(connection)
        if is_refused
    ]
    if refused:
        raise SchemaError(". Also: ".join(refused))
