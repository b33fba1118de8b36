"""sluice.set_queue_options with declared_by: limits that a handler declares."""

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.queue_options import NO_LIMITS, set_queue_options

STORED = "select fleet_concurrency, rate, when_waiting, limits_by from sluice.queue_settings where sluice._limits(queue_settings) <> '{}'"


def declare(connection, handler, queue="orders", **limits):
    """Declare these limits and no others, as workers do."""
    return value(
        connection,
        "select sluice.set_queue_options(%s, %s, %s)",
        queue,
        json.dumps(NO_LIMITS | limits),
        handler,
    )


def test_declared_limits_replace_and_remove_those_that_a_handler_declared_before(orders):
    index = "select to_regclass('pgmq.q_orders_claimed_idx') is not null"

    assert declare(orders, "a", fleet_concurrency=5) == "changed"
    assert rows(orders, STORED) == [(5, None, None, "a")]
    assert declare(orders, "b", fleet_concurrency=5) == "unchanged"
    assert rows(orders, STORED) == [(5, None, None, "a")]
    assert declare(orders, "b", rate=2, when_waiting="park") == "changed"
    assert rows(orders, STORED) == [(None, 2, "park", "b")]
    assert declare(orders, "b", fleet_concurrency=1) == "changed"
    assert value(orders, index) is True

    assert declare(orders, "b") == "changed"

    assert rows(orders, STORED) == []
    assert value(orders, "select limits_by from sluice.queue_settings") is None
    assert value(orders, index) is False
    assert declare(orders, "b") == "unchanged"


def test_limits_of_an_operator_stay(orders):
    declare(orders, "a", fleet_concurrency=5)
    set_queue_options(orders, "orders", fleet_concurrency=3)
    for limits in ({}, {"fleet_concurrency": 3}, {"fleet_concurrency": 5}):
        assert declare(orders, "a", **limits) == "operator"
    assert rows(orders, STORED) == [(3, None, None, None)]

    set_queue_options(orders, "orders", **NO_LIMITS)

    assert declare(orders, "a", fleet_concurrency=5) == "changed"


def test_other_options_of_an_operator_do_not_hinder_a_declaration_and_stay(orders):
    set_queue_options(orders, "orders", max_attempts=3, paused=True)

    assert declare(orders, "a", fleet_concurrency=5) == "changed"
    set_queue_options(orders, "orders", archive_retention="1 day")

    assert rows(orders, STORED) == [(5, None, None, "a")]
    assert rows(
        orders, "select max_attempts, paused_at is not null from sluice.queue_settings"
    ) == [(3, True)]
    assert declare(orders, "a", fleet_concurrency=6) == "changed"


def test_an_operator_who_sets_the_declared_limits_makes_them_those_of_an_operator(orders):
    declare(orders, "a", fleet_concurrency=5)

    assert set_queue_options(orders, "orders", fleet_concurrency=5) == "changed"

    assert rows(orders, STORED) == [(5, None, None, None)]
    assert declare(orders, "a", fleet_concurrency=6) == "operator"


def test_limits_that_are_as_declared_are_neither_locked_nor_built_again(orders, database):
    declare(orders, "a", fleet_concurrency=5)
    built = "select relfilenode from pg_class where relname = 'q_orders_claimed_idx'"
    before = value(orders, built)

    with database.connect() as other, other.transaction():
        other.execute("select sluice.claim_messages('orders', 30, 1)")
        other.execute("select pgmq.acquire_queue_lock('orders')")
        other.execute("update sluice.queue_settings set limits_by = 'a'")
        orders.execute("set lock_timeout = '1s'")

        assert declare(orders, "a", fleet_concurrency=5) == "unchanged"
    assert value(orders, built) == before


@pytest.mark.parametrize(
    ("second", "outcome", "wanted"),
    [
        ({"fleet_concurrency": 5}, "unchanged", [(5, None, None, "first")]),
        ({"fleet_concurrency": 1}, "changed", [(1, None, None, "second")]),
        ({}, "changed", []),
    ],
    ids=["same", "other", "none"],
)
def test_of_two_that_declare_at_once_the_second_waits_and_decides_by_what_the_first_stored(
    orders, database, second, outcome, wanted
):
    declare(orders, "before", fleet_concurrency=9)
    with database.connect() as first, database.connect() as other, ThreadPoolExecutor(1) as threads:
        with first.transaction():
            assert declare(first, "first", fleet_concurrency=5) == "changed"
            waiting = threads.submit(declare, other, "second", **second)
            wait_for_lock(orders, other)

        assert waiting.result(30) == outcome
    assert rows(orders, STORED) == wanted


def test_declaration_waits_for_an_operator_and_keeps_its_limits(orders, database):
    declare(orders, "before", fleet_concurrency=9)
    with database.connect() as first, database.connect() as other, ThreadPoolExecutor(1) as threads:
        with first.transaction():
            set_queue_options(first, "orders", fleet_concurrency=3)
            waiting = threads.submit(declare, other, "a", fleet_concurrency=5)
            wait_for_lock(orders, other)

        assert waiting.result(30) == "operator"
    assert rows(orders, STORED) == [(3, None, None, None)]


@pytest.mark.parametrize(
    ("queue", "handler", "limits", "sqlstate", "message"),
    [
        ("missing", "a", {"rate": 1}, "QU005", "queue 'missing' does not exist"),
        ("orders", "", {"rate": 1}, "22023", "declared_by is empty"),
        ("orders", "a", {"fleet_concurrency": 0}, "22023", "fleet_concurrency is 0"),
        ("orders", "a", {"when_waiting": "wait"}, "22023", "when_waiting is 'wait'"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(orders, queue, handler, limits, sqlstate, message):
    with pytest.raises(psycopg.Error) as caught:
        declare(orders, handler, queue, **limits)

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert caught.value.diag.message_hint


def test_only_an_admin_declares_limits(orders, as_member):
    query = "select sluice.set_queue_options('orders', '{\"fleet_concurrency\": 1}', 'a')"
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)

    assert as_member("sluice_admin", query) == [("changed",)]
