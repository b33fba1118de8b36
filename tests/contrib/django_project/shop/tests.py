"""Tests of the shop, run by `manage.py test`."""

from __future__ import annotations

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.test import TestCase, TransactionTestCase

from contrib.django_project.shop.handlers import app, label, pack, refuse, weigh
from contrib.django_project.shop.models import Parcel
from pgsluice import WorkQueue
from pgsluice.testing import (
    drain,
    drain_async,
    run_handler,
    run_handler_async,
)


class SendingTest(TestCase):
    """Messages are sent in the transaction of the test."""

    def setUp(self) -> None:
        """Create the queues in the transaction of the test."""
        app.create_queues(connection)

    def test_message_is_sent(self) -> None:
        """Read the message in the transaction of the test."""
        with self.captureOnCommitCallbacks():
            pack.send(1)
        [message] = WorkQueue(connection).read("packed", vt=30)
        self.assertEqual(message.message, 1)


class HandlerTest(TestCase):
    """Handlers run in the transaction of the test."""

    @classmethod
    def setUpTestData(cls) -> None:
        """Write what is rolled back after all tests of the class."""
        Parcel.objects.create(order_id=0)

    def test_writes_of_a_handler_are_seen_and_rolled_back(self) -> None:
        """Run each handler; the next test sees none of its writes."""
        with self.assertNumQueries(3):  # the savepoint and the row
            settled = run_handler(pack, 1, connection=connection)
        self.assertEqual(settled.result, "done")
        self.assertEqual(Parcel.objects.count(), 2)
        failed = run_handler(refuse, 2, connection=connection)
        self.assertIn("no", failed.failure.message)
        self.assertEqual(Parcel.objects.count(), 2)
        settled = async_to_sync(run_handler_async)(label, 3)
        self.assertIsNone(settled.failure)
        self.assertEqual(Parcel.objects.count(), 3)

    async def test_handlers_run_in_an_asynchronous_test(self) -> None:
        """Run an `async def` handler in the loop, a `def` handler in the thread of the test."""
        settled = await run_handler_async(label, 1)
        self.assertIsNone(settled.failure)
        settled = await sync_to_async(run_handler)(pack, 2, connection=connection)
        self.assertEqual(settled.result, "done")
        self.assertEqual(await Parcel.objects.acount(), 3)


class WorkerTest(TransactionTestCase):
    """A worker runs the handlers."""

    def setUp(self) -> None:
        """Create the queues; each test truncates only tables of models."""
        app.create_queues(connection)

    def test_worker_runs_the_handlers(self) -> None:
        """Send in transactions, and run all handlers, one of them in a process of its own."""
        for handler in (pack, weigh, label, refuse):
            handler.send(1)
        counts = drain(app)
        self.assertEqual([counts[name].done for name in ("pack", "weigh", "label")], [1, 1, 1])
        self.assertEqual(counts["refuse"].retry, 1)
        self.assertEqual(
            sorted(parcel.note for parcel in Parcel.objects.all()),
            ["loop", "process", "thread"],
        )

    async def test_worker_runs_in_an_asynchronous_test(self) -> None:
        """Send in the event loop, and run the worker in it."""
        await pack.send_async(1)
        await label.send_async(2)
        counts = await drain_async(app, handlers=["pack", "label"])
        self.assertEqual((counts["pack"].done, counts["label"].done), (1, 1))
        self.assertEqual(await Parcel.objects.acount(), 2)
