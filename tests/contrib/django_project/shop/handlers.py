"""Handlers that `manage.py pgsluice_worker` runs."""

from __future__ import annotations

from contrib.django_project.shop.models import Parcel
from pgsluice.contrib.django.app import DjangoApp
from pgsluice.worker import SyncContext

app = DjangoApp(name="shop")


@app.handler("packed", mode="transaction")
def pack(order_id: int) -> None:
    """Write in the transaction that acknowledges."""
    Parcel.objects.create(order_id=order_id, note="thread")


@app.handler("weighed", execution="process")
def weigh(order_id: int) -> None:
    """Write in a process of the handler."""
    Parcel.objects.create(order_id=order_id, note="process")


@app.handler("labelled")
async def label(order_id: int) -> None:
    """Write with the asynchronous methods of models."""
    await Parcel.objects.acreate(order_id=order_id, note="loop")


@app.handler("refused")
def refuse(order_id: int, context: SyncContext) -> None:
    """Write in a transaction that is rolled back."""
    with context.transaction():
        Parcel.objects.create(order_id=order_id)
        raise ValueError("no")
