"""Queues in Django projects; needs `pip install 'pgsluice[django]'`.

Add `pgsluice.contrib.django` to `INSTALLED_APPS`, and run `manage.py migrate`. Declare handlers in an app:

    from pgsluice.contrib.django.app import DjangoApp

    app = DjangoApp(name="shop")

    @app.handler("orders", mode="transaction")
    def pack(order: Order) -> None:
        Parcel.objects.create(order_id=order.id)  # commits with the acknowledgement

`pack.send(order)` sends in the transaction of `atomic()`. `manage.py pgsluice_worker` runs the handlers.

`dsn()` is the connection string of a database of `DATABASES`, for commands and the dashboard, which do not read
`DATABASES`. `database()` is the entry of `DATABASES` for a connection string.
"""

from __future__ import annotations

from typing import Any


def dsn(using: str = "default") -> str:
    """Return the connection string of a Django database, with its password.

    For `PGSLUICE_DSN` and the dashboard: `pgsluice.dashboard.app(dsn())`. In a test it is that of the test database.

    Args:
        using: Alias of the database, in `DATABASES`.

    Raises:
        ConfigurationError: It is not a PostgreSQL.
    """
    from pgsluice.contrib.django.app import (
        dsn_of,
    )  # the settings import this package, and are not loaded then

    return dsn_of(using)


def database(dsn: str | None = None) -> dict[str, Any]:
    """Return the entry of `DATABASES` for a connection string.

    Args:
        dsn: As for `pgsluice.connect`; None: `PGSLUICE_DSN` or `DATABASE_URL`, else the embedded server, which is
            started.

    Raises:
        ConfigurationError: The connection string is empty or cannot be parsed.
        MissingExtraError: No server is configured, and the embedded server is not installed.
    """
    from psycopg.conninfo import conninfo_to_dict

    from pgsluice.connection import resolve, with_defaults

    conninfo = resolve(dsn).conninfo
    options = {"dbname": with_defaults(conninfo).get("dbname", ""), **conninfo_to_dict(conninfo)}
    keys = {
        "NAME": "dbname",
        "USER": "user",
        "PASSWORD": "password",
        "HOST": "host",
        "PORT": "port",
    }
    named = {key: options.pop(name, "") for key, name in keys.items()}
    return {"ENGINE": "django.db.backends.postgresql", **named, "OPTIONS": options}
