"""Tasks of Django, which `manage.py pgsluice_worker` runs too."""

from __future__ import annotations

try:
    from django.tasks import task
except ModuleNotFoundError:  # before Django 6
    from django_tasks import task

from shop.models import Order


@task
def invoice(order_id: int) -> str:
    """Return the text of an invoice."""
    order = Order.objects.get(id=order_id)
    return f"{order.customer} owes {order.cents / 100:.2f}"
