"""A running notifier for this test's database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg_pool import ConnectionPool

from pgsluice import Notifier
from support.listen import running


@pytest.fixture
def notifier(database_18) -> Iterator[Notifier]:
    with (
        ConnectionPool(database_18.url, min_size=1, max_size=2, open=True) as pool,
        running(Notifier(pool, heartbeat_s=0.5)) as notifier,
    ):
        yield notifier
