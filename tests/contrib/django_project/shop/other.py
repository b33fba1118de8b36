"""An app and a task of the second database."""

from __future__ import annotations

from contrib.django_project.shop.models import Parcel
from pgsluice.contrib.django.app import DjangoApp

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task

app = DjangoApp(name="other", using="other")


@app.handler("packed", mode="transaction")
def pack(order_id: int) -> None:
    """Write in the transaction that acknowledges."""
    Parcel.objects.using("other").create(order_id=order_id, note="other")


@task(queue_name="reports", backend="other")
def report(order_id: int) -> None:
    """Write in the second database."""
    Parcel.objects.using("other").create(order_id=order_id, note="report")
