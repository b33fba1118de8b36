"""Tests of the shop, as a project would write them: `pytest test_shop.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import shop
from flask.testing import FlaskClient

from pgsluice.testing import drain


@pytest.fixture
def client(pgsluice_database: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    """A client of the shop, with a database of this test."""
    monkeypatch.setenv("PGSLUICE_DSN", pgsluice_database.dsn)
    shop.set_up()
    yield shop.web.test_client()
    shop.app.close()
    shop.pool.close()


def test_placed_order_is_packed_by_a_worker(client: FlaskClient) -> None:
    assert client.post("/orders?customer=ada").json == {"id": 1}
    assert client.get("/orders/1").json == {"customer": "ada", "state": "new"}

    assert drain(shop.app)["pack"].done == 1

    assert client.get("/orders/1").json == {"customer": "ada", "state": "packed"}
    assert client.get("/orders/2").status_code == 404
