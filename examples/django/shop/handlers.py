"""Handlers that `manage.py pgsluice_worker` runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from pgsluice.contrib.django.app import DjangoApp
from pgsluice.worker import Reject, RetryPolicy, SyncContext
from shop.models import Order, Parcel

app = DjangoApp(name="shop")


@dataclass
class Placed:
    """Payload of the queue `placed`."""

    order_id: int


@dataclass
class Day:
    """Payload of the queue `days`."""

    late_after_h: int = 24


@app.handler(
    "placed",
    mode="transaction",
    retry=RetryPolicy(max_attempts=5),
    timeout_s=30,
    keep_result="1h",
)
def pack(placed: Placed, context: SyncContext) -> str:
    """Pack an order and return its label; parcel, state, result and acknowledgement are one transaction."""
    order = Order.objects.get(id=placed.order_id)
    if order.cents <= 0:
        raise Reject("the amount of the order is not positive")
    order.state = f"packed in attempt {context.attempt}"
    order.save(update_fields=["state"])
    return Parcel.objects.create(order=order, label=f"label {order.id}").label


@app.handler("days", mode="transaction")
def mark_late(day: Day) -> None:
    """Mark orders that are not packed after a day."""
    before = timezone.now() - timedelta(hours=day.late_after_h)
    Order.objects.filter(state="new", placed_at__lt=before).update(state="late")


app.schedule("late orders", handler=mark_late, payload=Day(), cron="0 6 * * *")
