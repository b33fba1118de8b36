"""Migrate, and send in the transaction of Django."""

from __future__ import annotations

import io
import os

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from psycopg.conninfo import conninfo_to_dict

from pgsluice import WorkQueue

found = conninfo_to_dict(os.environ["PGSLUICE_DSN"])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": found["dbname"],
            "USER": found.get("user", ""),
            "PASSWORD": found.get("password", ""),
            "HOST": found.get("host", ""),
            "PORT": found.get("port", ""),
        }
    },
    INSTALLED_APPS=["pgsluice.contrib.django"],
    USE_TZ=True,
)
django.setup()
from pgsluice.contrib.django.app import DjangoApp  # noqa: E402  # needs the settings

assert DjangoApp(name="shop")
call_command("migrate", verbosity=0)
call_command("check", databases=["default"], stdout=io.StringIO())
queue = WorkQueue(connection)
queue.create("orders")
with transaction.atomic():
    queue.send("orders", {"order": 1})
    transaction.set_rollback(True)
with transaction.atomic():
    queue.send("orders", {"order": 2})
assert [message.message for message in queue.read("orders", vt=30)] == [{"order": 2}]
