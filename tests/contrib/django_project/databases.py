"""Entries of DATABASES."""

from __future__ import annotations

import json
import os

from psycopg.conninfo import conninfo_to_dict


def database_of(dsn: str) -> dict[str, object]:
    """Return the entry of DATABASES for a connection string."""
    parts = conninfo_to_dict(dsn)
    names = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password"}
    return {
        "ENGINE": os.environ.get("SHOP_ENGINE", "django.db.backends.postgresql"),
        "NAME": parts["dbname"],
        "CONN_MAX_AGE": json.loads(os.environ.get("SHOP_MAX_AGE", "0")),
        **{setting: parts[name] for setting, name in names.items() if name in parts},
    }


class OnlyInDefault:
    """A router of Django that allows the schemas in the database `default` only."""

    def allow_migrate(self, db: str, app_label: str, **_hints: object) -> bool | None:
        """Return False for the migrations of pgsluice in others; None: no opinion."""
        return False if app_label == "pgsluice" and db != "default" else None
