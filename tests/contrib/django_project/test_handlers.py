"""Handlers that write and acknowledge in Django's transactions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pgsluice import WorkQueue
from pgsluice.contrib.django.app import DjangoApp
from pgsluice.testing import drain
from pgsluice.worker import Batch, Reject, Retry, RetryPolicy, SyncContext
from support import rows, value

ONCE = RetryPolicy(max_attempts=1)


def parcels(observer: Any) -> list[int]:
    return [row[0] for row in rows(observer, "select order_id from shop_parcel order by order_id")]


def archived(observer: Any, queue: str) -> list[Any]:
    return [row[0] for row in rows(observer, f"select message from pgmq.a_{queue} order by msg_id")]


def error_of(observer: Any, queue: str) -> str:
    [(error,)] = rows(observer, "select error from sluice.dead_letter where queue_name = %s", queue)
    return str(error)


def create(order_id: int) -> None:
    from contrib.django_project.shop.models import Parcel

    Parcel.objects.create(order_id=order_id)


def run(app: DjangoApp, queue: str, *payloads: Any, **options: Any) -> None:
    from django.db import connection

    WorkQueue(connection).send_batch(queue, list(payloads))
    drain(app, **options)


def test_handler_writes_and_acknowledges_in_one_transaction(connection, observer, queue):
    from django.db import transaction

    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE)
    def pack(order: int, context: SyncContext) -> Any:
        with context.transaction() as own:
            assert own.in_atomic_block
            create(order)
            with suppress(ZeroDivisionError), transaction.atomic():
                create(100)
                raise ZeroDivisionError
            with context.transaction():  # a savepoint
                assert context.once("key")
            if order == 2:
                raise ValueError("within the block")
        if order == 3:
            raise ValueError("after the block")
        return Reject("no") if order == 4 else None

    run(app, queue, 1, 2, 3, 4)

    assert parcels(observer) == [1]
    assert archived(observer, queue) == [1]
    dead = "select count(*) from sluice.dead_letter where queue_name = %s"
    assert value(observer, dead, queue) == 3


def test_mode_transaction_runs_the_handler_in_atomic(connection, observer, queue):
    from django.db import connection as own

    app = DjangoApp(name="t")

    @app.handler(queue, mode="transaction", retry=ONCE)
    def pack(order: int) -> Any:
        assert own.in_atomic_block
        create(order)
        if order == 2:
            raise ValueError("no")
        return Retry(delay_s=60) if order == 3 else None

    run(app, queue, 1, 2, 3)

    assert parcels(observer) == [1]
    assert archived(observer, queue) == [1]


def test_batch_handler_commits_a_transaction_per_message(connection, observer, queue):
    app = DjangoApp(name="t")

    @app.handler(queue, batch=Batch(3), retry=ONCE)
    def pack(orders: list[int], contexts: list[SyncContext]) -> None:
        for order, context in zip(orders, contexts, strict=True):
            with context.transaction():
                create(order)
        raise ValueError("after all")

    run(app, queue, 1, 2, 3)

    assert parcels(observer) == [1, 2, 3]
    assert archived(observer, queue) == [1, 2, 3]


def test_handler_without_a_transaction_writes_in_autocommit(connection, observer, queue):
    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE)
    def pack(order: int) -> None:
        create(order)
        if order == 2:
            raise ValueError("no")

    run(app, queue, 1, 2)

    assert parcels(observer) == [1, 2]
    assert archived(observer, queue) == [1]


def roll_back(connection: Any) -> None:
    connection.set_rollback(True)


def break_a_block(connection: Any) -> None:
    from django.db import transaction

    with suppress(ZeroDivisionError), transaction.atomic(savepoint=False):
        raise ZeroDivisionError


def fail_a_statement(connection: Any) -> None:
    from django.db import Error

    with pytest.raises(Error), connection.cursor() as cursor:
        cursor.execute("select 1 / 0")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (roll_back, "marked it for rollback"),
        (break_a_block, "marked it for rollback"),
        (fail_a_statement, "a statement in it failed"),
    ],
)
@pytest.mark.parametrize("mode", ["lease", "transaction"])
def test_transaction_that_cannot_commit_fails_the_attempt(
    mode, act, message, connection, observer, queue
):
    from django.db import connections

    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE, mode=mode)
    def pack(order: int, context: SyncContext) -> None:
        if mode == "transaction":
            create(order)
            act(connections["default"])
            return
        with context.transaction() as own:
            create(order)
            act(own)

    run(app, queue, 1)

    assert message in error_of(observer, queue)
    assert parcels(observer) == []
    assert archived(observer, queue) == []


def test_handler_that_commits_below_django_fails(connection, observer, queue):
    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE)
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction() as own:
            create(order)
            own.connection.commit()

    run(app, queue, 1)

    assert "ended the transaction itself" in error_of(observer, queue)
    assert archived(observer, queue) == []


@pytest.mark.parametrize("batch", [None, Batch(2)])
def test_hooks_of_on_commit_run_once_after_the_commit_also_if_one_raises(
    batch, connection, observer, queue, caplog
):
    from django.db import transaction

    app, seen = DjangoApp(name="t"), []

    @app.handler(queue, batch=batch, retry=RetryPolicy(max_attempts=3))
    def pack(order: Any, context: Any) -> None:
        def hook() -> None:
            seen.append((parcels(observer), len(archived(observer, queue))))
            raise ValueError("in the hook")

        with (context[0] if batch else context).transaction():
            create(1)
            transaction.on_commit(hook)
        assert (len(seen) == 1) == bool(batch)

    run(app, queue, 1)

    assert seen == [([1], 1)]
    assert value(observer, f"select count(*) from pgmq.q_{queue}") == 0
    assert archived(observer, queue) == [1]
    assert rows(observer, "select 1 from sluice.dead_letter where queue_name = %s", queue) == []
    assert 'outcome=acknowledged error="ValueError: in the hook"' in caplog.text


def test_handler_that_executes_nothing_acknowledges(connection, observer, queue):
    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE)
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction():
            pass

    run(app, queue, 1)

    assert archived(observer, queue) == [1]


def test_rolled_back_handler_runs_no_hook(connection, observer, queue):
    from django.db import transaction

    app, seen = DjangoApp(name="t"), []

    @app.handler(queue, retry=ONCE)
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction():
            transaction.on_commit(lambda: seen.append("hook"))
        raise ValueError("no")

    run(app, queue, 1)

    assert seen == []
    assert "no" in error_of(observer, queue)
