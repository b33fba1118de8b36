"""Orders over HTTP: an order and its message commit together."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from pgsluice import MessageFailedError, ResultNotKeptError, ResultTimeoutError
from shop.handlers import Placed, pack
from shop.models import Order
from shop.tasks import invoice

WAIT_S = 5.0


@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Store an order and send its message in one transaction."""
    with transaction.atomic():
        order = Order.objects.create(
            customer=request.GET["customer"], cents=int(request.GET["cents"])
        )
        order.message_id = pack.send(Placed(order.id))
        order.save(update_fields=["message_id"])
    return JsonResponse({"id": order.id}, status=201)


@require_http_methods(["GET", "DELETE"])
def order(request: HttpRequest, order_id: int) -> JsonResponse:
    """Show an order, or cancel it."""
    if request.method == "DELETE":
        return _cancel(order_id)
    found = get_object_or_404(Order, id=order_id)
    parcels = found.parcel_set.count()
    return JsonResponse({"customer": found.customer, "state": found.state, "parcels": parcels})


def _cancel(order_id: int) -> JsonResponse:
    """Cancel an order that is not packed, running or not, in one transaction."""
    with transaction.atomic():
        found = get_object_or_404(Order, id=order_id)
        is_cancelled = pack.cancel(found.message_id)
        if is_cancelled:
            found.state = "cancelled"
            found.save(update_fields=["state"])
    return JsonResponse({"cancelled": is_cancelled})


@transaction.non_atomic_requests
@require_GET
def label(_request: HttpRequest, order_id: int) -> JsonResponse:
    """Wait for the result of the handler, for at most `WAIT_S` seconds."""
    found = get_object_or_404(Order, id=order_id, message_id__isnull=False)
    try:
        return JsonResponse({"label": pack.result(found.message_id, timeout_s=WAIT_S)})
    except ResultTimeoutError:
        return JsonResponse({"state": "not packed yet"}, status=202)
    except ResultNotKeptError:  # cancelled, or expired
        return JsonResponse({"error": "no label"}, status=404)
    except MessageFailedError:  # dead-lettered
        return JsonResponse({"error": "the order cannot be packed"}, status=500)


@require_POST
def send_invoice(_request: HttpRequest, order_id: int) -> JsonResponse:
    """Enqueue a task of Django."""
    found = get_object_or_404(Order, id=order_id)
    return JsonResponse({"task": invoice.enqueue(found.id).id}, status=201)


@require_GET
def task(_request: HttpRequest, result_id: str) -> JsonResponse:
    """Show a task and its value."""
    result = invoice.get_result(result_id)
    value = result.return_value if result.is_finished else None
    return JsonResponse({"status": str(result.status), "value": value})
