from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import rows, value, wait_for_lock

STORED = "select fleet_concurrency, rate, when_waiting, declared_by from sluice.queue_limits where queue_name = 'orders'"


def declare(connection, handler, limits=""):
    return value(connection, f"select sluice.declare_queue_limits('orders', '{handler}'{limits})")


def test_declared_limits_replace_and_remove_those_that_a_handler_declared_before(orders):
    index = "select to_regclass('pgmq.q_orders_claimed_idx') is not null"

    assert declare(orders, "a", ", 5") == "changed"
    assert rows(orders, STORED) == [(5, None, None, "a")]
    assert declare(orders, "b", ", 5") == "unchanged"
    assert rows(orders, STORED) == [(5, None, None, "a")]
    assert declare(orders, "b", ", rate => 2, when_waiting => 'park'") == "changed"
    assert rows(orders, STORED) == [(None, 2, "park", "b")]
    assert declare(orders, "b", ", 1") == "changed"
    assert value(orders, index) is True

    assert declare(orders, "b") == "changed"

    assert rows(orders, STORED) == []
    assert value(orders, index) is False
    assert declare(orders, "b") == "unchanged"


def test_limits_of_an_operator_stay(orders):
    declare(orders, "a", ", 5")
    orders.execute("select sluice.set_queue_limits('orders', 3)")
    for limits in ("", ", 3", ", 5"):
        assert declare(orders, "a", limits) == "operator"
    assert rows(orders, STORED) == [(3, None, None, None)]

    orders.execute("select sluice.drop_queue_limits('orders')")

    assert declare(orders, "a", ", 5") == "changed"


def test_limits_that_are_as_declared_are_neither_locked_nor_built_again(orders, database):
    declare(orders, "a", ", 5")
    built = "select relfilenode from pg_class where relname = 'q_orders_claimed_idx'"
    before = value(orders, built)

    with database.connect() as other, other.transaction():
        other.execute(
            "select sluice.claim_messages('orders', 30, 1), sluice.set_queue_limits('orders', 5)"
        )
        other.execute("update sluice.queue_limits set declared_by = 'a'")
        orders.execute("set lock_timeout = '1s'")

        assert declare(orders, "a", ", 5") == "unchanged"
    assert value(orders, built) == before


@pytest.mark.parametrize(
    ("second", "outcome", "wanted"),
    [
        (", 5", "unchanged", [(5, None, None, "first")]),
        (", 1", "changed", [(1, None, None, "second")]),
        ("", "changed", []),
    ],
    ids=["same", "other", "none"],
)
def test_of_two_that_declare_at_once_the_second_waits_and_decides_by_what_the_first_stored(
    orders, database, second, outcome, wanted
):
    declare(orders, "before", ", 9")
    with database.connect() as first, database.connect() as other, ThreadPoolExecutor(1) as threads:
        with first.transaction():
            assert declare(first, "first", ", 5") == "changed"
            waiting = threads.submit(declare, other, "second", second)
            wait_for_lock(orders, other)

        assert waiting.result(30) == outcome
    assert rows(orders, STORED) == wanted


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "message"),
    [
        ("'missing', 'a', 1", "QU005", "queue 'missing' does not exist"),
        ("'orders', '', 1", "22023", "declared_by is empty"),
        ("'orders', 'a', 0", "22023", "fleet_concurrency is 0"),
        ("'orders', 'a', when_waiting => 'wait'", "22023", "when_waiting is 'wait'"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(orders, arguments, sqlstate, message):
    with pytest.raises(psycopg.Error) as caught:
        orders.execute(f"select sluice.declare_queue_limits({arguments})")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert caught.value.diag.message_hint


def test_only_an_admin_declares_limits(orders, as_member):
    query = "select sluice.declare_queue_limits('orders', 'a', 1)"
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)

    assert as_member("sluice_admin", query) == [("changed",)]
