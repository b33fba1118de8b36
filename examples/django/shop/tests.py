"""Tests of the shop: `manage.py test`."""

from __future__ import annotations

from datetime import timedelta
from unittest import mock

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from pgsluice.contrib.django.worker import app
from pgsluice.testing import assert_sent, drain, run_handler
from pgsluice.worker import Reject
from shop.handlers import Day, Placed, mark_late, pack
from shop.models import Order, Parcel
from shop.tasks import invoice


class PlaceTest(TestCase):
    """Requests and their messages are in the transaction of the test."""

    def test_order_and_message_commit_together(self) -> None:
        """Find the message of the order, and none after a rollback."""
        placed = self.client.post("/orders?customer=ada&cents=1200").json()
        with transaction.atomic():
            pack.send(Placed(Order.objects.create(customer="bob", cents=5).id))
            transaction.set_rollback(True)

        assert_sent(pack, payload=Placed(placed["id"]), count=1, connection=connection)
        assert_sent(pack, count=1, connection=connection)
        self.assertEqual(Order.objects.get().customer, "ada")

    def test_cancelled_order_has_no_message(self) -> None:
        """Cancel an order twice."""
        placed = self.client.post("/orders?customer=ada&cents=1200").json()
        address = f"/orders/{placed['id']}"
        self.assertEqual(self.client.delete(address).json(), {"cancelled": True})
        self.assertEqual(self.client.delete(address).json(), {"cancelled": False})
        assert_sent(pack, count=0, connection=connection)
        self.assertEqual(self.client.get(address).json()["state"], "cancelled")
        self.assertEqual(self.client.get(f"{address}/label").status_code, 404)


class HandlerTest(TestCase):
    """Handlers run in the transaction of the test."""

    def test_handler_creates_the_parcel(self) -> None:
        """Run the handler for an order, and for one that it rejects."""
        ada = Order.objects.create(customer="ada", cents=1200)
        eve = Order.objects.create(customer="eve", cents=0)
        self.assertEqual(run_handler(pack, Placed(ada.id), connection=connection).result, "done")
        rejected = run_handler(pack, Placed(eve.id), connection=connection)
        self.assertIsInstance(rejected.outcome, Reject)
        self.assertEqual(Parcel.objects.get().order, ada)

    def test_order_of_yesterday_is_late(self) -> None:
        """Run the handler of the schedule."""
        order = Order.objects.create(customer="ada", cents=1)
        Order.objects.update(placed_at=timezone.now() - timedelta(days=2))
        run_handler(mark_late, Day(), connection=connection)
        order.refresh_from_db()
        self.assertEqual(order.state, "late")


class WorkerTest(TransactionTestCase):
    """A worker runs handlers and tasks."""

    def test_label_of_an_order_that_is_not_packed(self) -> None:
        """Ask for the label without a worker."""
        ada = self.client.post("/orders?customer=ada&cents=1200").json()["id"]
        with mock.patch("shop.views.WAIT_S", 0):
            self.assertEqual(self.client.get(f"/orders/{ada}/label").status_code, 202)

    def test_worker_packs_orders(self) -> None:
        """Place orders, run a worker, and ask for the label."""
        ada = self.client.post("/orders?customer=ada&cents=1200").json()["id"]
        eve = self.client.post("/orders?customer=eve&cents=-1").json()["id"]
        counts = drain(app)
        self.assertEqual((counts["pack"].done, counts["pack"].dead), (1, 1))
        self.assertEqual(self.client.get(f"/orders/{ada}").json()["parcels"], 1)
        self.assertEqual(self.client.get(f"/orders/{ada}/label").json(), {"label": f"label {ada}"})
        self.assertEqual(self.client.get(f"/orders/{eve}/label").status_code, 500)

    def test_task_has_a_result(self) -> None:
        """Enqueue a task, run a worker, and ask for its value."""
        result = invoice.enqueue(Order.objects.create(customer="ada", cents=1200).id)
        self.assertEqual(
            self.client.get(f"/tasks/{result.id}").json(), {"status": "READY", "value": None}
        )
        drain(app)
        self.assertEqual(
            self.client.get(f"/tasks/{result.id}").json(),
            {"status": "SUCCESSFUL", "value": "ada owes 12.00"},
        )
