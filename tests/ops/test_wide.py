"""Growth of costs with the size, the short form of `python -m bench --workload wide`: no cost grows faster than a line.

Counted are blocks, transactions, rows of plans and locks, which do not depend on the load of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from bench.wide.costs import Dimension, Growth, Site, Step, grown, without_autovacuum
from bench.wide.duties import session, statement, void
from bench.wide.groups import KEYS, MEMBERS
from bench.wide.logs import CONSUMERS, LOGS
from bench.wide.moments import DEAD_LETTERS, SCHEDULES
from bench.wide.queues import QUEUES
from bench.wide.workers import WORKERS
from psycopg_pool import ConnectionPool

from pgsluice import Notifier
from support import value
from support.servers import Database

# Below these, plans of small tables and a page more of a few indexes determine a cost.
COUNTED = {"blocks": 200.0, "transactions": 5.0, "rows": 1_000.0}
# The lock table of a server is shared: by default it has 6,400 entries. A lock on a sequence lasts until the transaction ends.
LOCKS_PER_OBJECT = 1.1
# At small sizes constant parts and changes of plans blur the exponent; that of a quadratic cost is 2.
BLUR = 0.45
SIZES = {
    QUEUES: (50, 200),
    LOGS: (10, 40),
    CONSUMERS: (5, 40),
    MEMBERS: (150, 450),  # the cost reaches its constant at 100
    WORKERS: (50, 400),
    KEYS: (1_000, 8_000),
    SCHEDULES: (50, 400),
    DEAD_LETTERS: (12_000, 48_000),
}


@pytest.fixture
def site(database_18: Database) -> Iterator[Site]:
    with (
        database_18.connect() as connection,
        psycopg.connect(database_18.server.url(), autocommit=True) as observer,
        without_autovacuum(observer),
    ):
        yield Site(database_18.server, database_18.url, connection, observer)


def curves(site: Site, dimension: Dimension, sizes: tuple[int, ...]) -> list[str]:
    """Return the costs of a dimension that grow faster than expected, locks included."""
    *_, found = grown(site, dimension, sizes, is_exact=True)
    assert [len(growth.costs) for growth in found] == [len(sizes)] * len(found)
    return [
        f"{growth.step}: {name} {[getattr(cost, name) for cost in growth.costs.values()]}"
        for growth in found
        for name in (*COUNTED, "locks")
        if is_curve(growth, name)
    ]


def is_curve(growth: Growth, name: str) -> bool:
    """True if a cost grows faster than expected, also with what blurs it."""
    if name == "locks":
        return growth.locks_per_object > LOCKS_PER_OBJECT
    return growth.exponents(name, COUNTED[name])[-1] > growth.growth_max + BLUR


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dimension", SIZES, ids=lambda dimension: dimension.name)
def test_no_cost_grows_faster_than_a_line(site: Site, dimension: Dimension):
    assert curves(site, dimension, SIZES[dimension]) == []


def test_a_planted_quadratic_is_found_by_blocks_and_by_rows(site: Site):
    def make(site: Site, size: int) -> None:
        site.execute("create table if not exists planted (n integer)")
        site.execute(
            "insert into planted select generate_series((select count(*) from planted) + 1, %s::integer)",
            [size],
        )
        site.execute("vacuum analyze planted")

    @contextmanager
    def queried(site: Site) -> Iterator[object]:
        with session(site) as connection:
            connection.execute("set enable_hashjoin = off")
            connection.execute("set enable_mergejoin = off")
            query = "select from planted as a join planted as b on a.n = b.n + 1"
            yield lambda: void(connection.execute(query).fetchall())

    each = statement(
        "each reads all",
        "select (select count(*) from planted as b where b.n <> a.n) from planted as a where a.n % 10 = 0",
    )
    planted = Dimension(
        "planted",
        (),
        make,
        (
            each,
            Step("nested loop", "call", queried, is_read=True),
            statement("line", "select * from planted"),
        ),
    )

    found = curves(site, planted, (2_000, 8_000))

    assert [curve.partition(" [")[0] for curve in found] == [
        "each reads all: blocks",
        "nested loop: rows",
    ]


def test_a_standby_notifier_does_not_read_the_list_of_queues(site: Site):
    site.execute("select pgmq.create('orders')")
    with ConnectionPool(site.url, kwargs={"autocommit": True}, min_size=1, open=True) as pool:
        leader, standby = Notifier(pool), Notifier(pool)
        leader.run_once()
        site.execute(
            "create or replace function sluice.notifier_queues() returns table (queue_name text, id_sequence oid) "
            "language plpgsql as $$ begin raise 'the queues were read'; end $$"
        )

        assert standby.run_once() == 0

        assert (leader.is_leader, standby.is_leader) == (True, False)


def test_reports_of_many_workers_seldom_count_them(site: Site):
    site.execute(
        "insert into sluice.process (process_id, kind, app, host, pid, role_name, started_at, sources) "
        "select 'worker ' || n, 'worker', repeat('a', 200), 'host', n, 'r', now(), '{}' from generate_series(1, 5000) as n"
    )
    site.execute("analyze sluice.process")
    report = "select sluice.report_worker('worker 1', 'a', 'host', 1, '1', '{}', 1, '1 minute')"
    counted = "select pg_stat_get_xact_numscans('sluice.process'::regclass)"
    with site.connection.transaction():
        before = value(site.connection, counted)
        for _ in range(100):
            site.execute(report)
        pages = value(site.connection, "select pg_relation_size('sluice.process') / 8192")
        scans = value(site.connection, counted) - before

    assert pages > 100
    assert scans < 20


def test_creating_a_queue_reads_no_catalog_as_a_whole(site: Site):
    QUEUES.grow(site, 50)
    counted = "select pg_stat_get_xact_numscans('pg_class'::regclass)"
    with site.connection.transaction():
        # The counter includes earlier transactions that the session has not reported yet.
        before = value(site.connection, counted)
        site.execute("select pgmq.create('orders')")
        scans = value(site.connection, counted) - before

    assert scans == 0
