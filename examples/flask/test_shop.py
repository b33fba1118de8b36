"""Tests of the shop, as a project would write them: `pytest test_shop.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import shop
from flask.testing import FlaskClient
from shop import Day, Placed, pack, report

from pgsluice.testing import assert_sent, drain, run_handler
from pgsluice.worker import Reject


@pytest.fixture
def client(pgsluice_database: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """A client of the shop, with a database of this test."""
    monkeypatch.setenv("PGSLUICE_DSN", pgsluice_database.dsn)
    shop.set_up()
    web = shop.create_app()
    yield web.test_client()
    shop.app.close()
    web.extensions["pool"].close()


def test_placed_order_is_packed_by_a_worker(client: FlaskClient) -> None:
    assert client.post("/orders?customer=ada&cents=1200").json == {"id": 1}
    client.post("/orders?customer=eve&cents=-1")
    assert client.get("/orders/1").json == {"customer": "ada", "state": "new"}

    counts = drain(shop.app)

    assert (counts["pack"].done, counts["pack"].dead) == (1, 1)
    assert client.get("/orders/1").json == {"customer": "ada", "state": "packed in attempt 1"}
    assert client.get("/orders/1/label").json == {"label": "label 1"}
    assert client.get("/orders/3").status_code == 404


def test_order_and_message_roll_back_together(client: FlaskClient) -> None:
    client.post("/orders?customer=ada&cents=1200")
    with client.application.extensions["pool"].connection() as connection:
        pack.send(Placed(1), connection=connection)
        connection.rollback()

    assert_sent(pack, payload=Placed(1), count=1)


def test_label_without_a_result(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop, "WAIT_S", 0)
    for cents in (1200, -1):
        client.post(f"/orders?customer=ada&cents={cents}")
    assert client.get("/orders/1/label").status_code == 202
    client.delete("/orders/1")
    assert client.get("/orders/1/label").status_code == 404
    drain(shop.app)
    failed = client.get("/orders/2/label")
    assert (failed.status_code, failed.json) == (500, {"error": "the order could not be packed"})


def test_cancelled_order_is_not_packed(client: FlaskClient) -> None:
    client.post("/orders?customer=ada&cents=1200")
    assert client.delete("/orders/1").json == {"cancelled": True}
    assert client.delete("/orders/1").json == {"cancelled": False}
    drain(shop.app)
    assert client.get("/orders/1").json == {"customer": "ada", "state": "cancelled"}


def test_handlers_write_in_the_transaction_of_the_test(pgsluice_connection: Any) -> None:
    pgsluice_connection.execute(shop.TABLES)
    pgsluice_connection.execute(
        "insert into customer_order (customer, cents) values ('ada', 1200), ('eve', 0)"
    )
    assert run_handler(pack, Placed(1), connection=pgsluice_connection).result == "done"
    settled = run_handler(pack, Placed(2), connection=pgsluice_connection)
    assert isinstance(settled.outcome, Reject)

    run_handler(report, Day(), connection=pgsluice_connection)
    assert pgsluice_connection.execute("select packed from report").fetchall() == [(1,)]
