"""Create the tables."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create the tables."""

    initial = True
    dependencies: ClassVar = [("pgsluice", "0001_install")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="Parcel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("order_id", models.IntegerField()),
                ("note", models.TextField(default="")),
            ],
        ),
    ]
