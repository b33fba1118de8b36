"""Install the schemas of release 0.1.0. Each release that changes them has a further migration."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

from pgsluice.contrib.django.operations import InstallPgsluice


class Migration(migrations.Migration):
    """Install the schemas, and create the permission to open the dashboard."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Any]] = [
        InstallPgsluice(),
        migrations.CreateModel(
            name="DashboardLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                )
            ],
            options={
                "verbose_name": "dashboard",
                "verbose_name_plural": "dashboard",
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
    ]
