"""Tables of the shop."""

from __future__ import annotations

from django.db import models


class Parcel(models.Model):
    """Written by handlers.

    Attributes:
        note: Distinguishes the writer.
    """

    order_id = models.IntegerField()
    note = models.TextField(default="")
