"""Cost of viewers for the database, counted by pg_stat_statements."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from starlette.testclient import TestClient

from pgsluice.client import WorkQueue
from pgsluice.dashboard import app
from pgsluice.embedded import EmbeddedServer
from support import rows, wait_until
from support.servers import DEBIAN_15, FAST, TEMPLATE, make_template

EXTENSION = DEBIAN_15.parent / "lib" / "pg_stat_statements.so"
TABS = 50

pytestmark = pytest.mark.slow


@pytest.fixture
def counting(servers_folder: Path) -> Iterator[psycopg.Connection]:
    """A database whose statements are counted."""
    if not EXTENSION.exists():
        pytest.skip("needs Debian's package postgresql-15")
    options = {**FAST, "shared_preload_libraries": "pg_stat_statements"}
    server = EmbeddedServer(servers_folder / "counting", bin_dir=DEBIAN_15, options=options)
    server.start()
    try:
        make_template(server)
        with psycopg.connect(server.url(TEMPLATE), autocommit=True) as connection:
            connection.execute("create extension pg_stat_statements")
            yield connection
    finally:
        server.stop("immediate")


def test_fifty_viewers_of_a_page_cost_what_one_costs(counting: psycopg.Connection):
    work = WorkQueue(counting)
    for number in range(20):
        work.create(f"queue_{number}")
        work.send_batch(f"queue_{number}", [1, 2, 3])
    dashboard = app(counting.info.dsn, refresh_s=60)

    def cost(client: TestClient, tabs: int) -> tuple[int, float]:
        """Return the statements of tabs that are refreshed at once, and their time in milliseconds."""
        dashboard.state.dashboard.database.forget()
        counting.execute("select pg_stat_statements_reset()")
        with ThreadPoolExecutor(tabs) as threads:
            answers = list(threads.map(client.get, ["/"] * tabs))
        assert [answer.status_code for answer in answers] == [200] * tabs
        [(calls, spent_ms)] = rows(
            counting,
            "select sum(calls)::int, sum(total_exec_time) from pg_stat_statements "
            "where query not like '%%pg_stat_statements%%'",
        )
        return calls, spent_ms

    with TestClient(dashboard, base_url="http://localhost", client=("127.0.0.1", 50_000)) as client:
        client.get("/")
        wait_until(
            lambda: dashboard.state.dashboard.diagnosis.latest() is not None, "the checks to end"
        )
        cost(client, TABS)  # opens the connections
        one, fifty = cost(client, 1), cost(client, TABS)

    print(
        f"one viewer: {one[0]} statements, {one[1]:.1f} ms; {TABS}: {fifty[0]}, {fifty[1]:.1f} ms"
    )
    assert (
        fifty[0] <= one[0] + 20
    )  # checks of idle connections, begin and commit of readings at once
