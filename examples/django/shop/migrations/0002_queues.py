"""Create the queues; the migrations of `pgsluice.contrib.django` install the schemas before."""

from typing import Any

from django.db import migrations

from pgsluice import WorkQueue


def create(_apps: Any, schema_editor: Any) -> None:
    """Create the queues of the handlers and of the tasks."""
    for name in ("placed", "days", "default"):
        WorkQueue(schema_editor.connection).create(name)


class Migration(migrations.Migration):
    """Create the queues."""

    dependencies = [("shop", "0001_initial"), ("pgsluice", "0001_install")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
