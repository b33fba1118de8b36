"""Tasks of the shop."""

from __future__ import annotations

from typing import Any

from contrib.django_project.shop.models import Parcel

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task


@task
def pack(order_id: int, note: str = "task") -> str:
    """Write a parcel."""
    return f"parcel {Parcel.objects.create(order_id=order_id, note=note).order_id}"


@task(queue_name="mail")
async def mail(order_id: int) -> None:
    """Write with the asynchronous methods of models."""
    await Parcel.objects.acreate(order_id=order_id, note="async task")


@task(takes_context=True, priority=100)
def describe(context: Any, order_id: int) -> dict[str, Any]:
    """Write the context."""
    result = context.task_result
    note = f"{context.attempt} {result.status} {result.task.name} {result.args}"
    Parcel.objects.create(order_id=order_id, note=note)
    return {"id": result.id}


@task
def refuse(order_id: int) -> None:
    """Fail after a write."""
    Parcel.objects.create(order_id=order_id)
    raise ValueError("no")


@task
def odd() -> object:
    """Return a value without a JSON form."""
    return object()


no_task = 1
