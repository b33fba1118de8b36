"""Orders and their parcels."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order of a customer."""

    customer = models.TextField()
    cents = models.IntegerField()
    state = models.TextField(default="new")
    placed_at = models.DateTimeField(auto_now_add=True)
    message_id = models.BigIntegerField(null=True)


class Parcel(models.Model):
    """A parcel of an order."""

    order = models.ForeignKey(Order, models.CASCADE)
    label = models.TextField()
