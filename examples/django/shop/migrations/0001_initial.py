"""Create the tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create the tables."""

    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("customer", models.TextField()),
                ("cents", models.IntegerField()),
                ("state", models.TextField(default="new")),
                ("placed_at", models.DateTimeField(auto_now_add=True)),
                ("message_id", models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Parcel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("label", models.TextField()),
                (
                    "order",
                    models.ForeignKey(on_delete=models.deletion.CASCADE, to="shop.order"),
                ),
            ],
        ),
    ]
