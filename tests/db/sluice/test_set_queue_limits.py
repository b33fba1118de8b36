"""sluice.set_queue_limits.

Also covers _require_limits, _limit_indexes, _drop_limit_indexes and _store_limits.
"""

import psycopg
import pytest

from support import rows, value

INDEXES = """
select substr(c.relname, length('q_orders') + 1)
from pg_index as i
join pg_class as c on c.oid = i.indexrelid
where i.indrelid = 'pgmq.q_orders'::regclass
order by 1
"""
OF_EVERY_QUEUE = ["_pkey", "_ready_idx", "_vt_idx"]
REFUSED = [
    ("'missing', 1", "QU005", "queue 'missing' does not exist"),
    ("'orders'", "22023", "no limit is given"),
    ("'orders', 0", "22023", "fleet_concurrency is 0"),
    ("'orders', key_concurrency => 0", "22023", "key_concurrency is 0"),
    ("'orders', rate => 0", "22023", "rate is 0"),
    ("'orders', rate => 1, rate_interval => '0'", "22023", "rate_interval is 00:00:00"),
    ("'orders', rate => 1, rate_interval => null", "22023", "rate_interval is null"),
    ("'orders', when_waiting => 'wait'", "22023", "when_waiting is 'wait'"),
    (
        "'orders', key_concurrency => 2, when_waiting => 'block'",
        "22023",
        "key_concurrency is 2 where messages of a key are claimed in order",
    ),
    ("'orders', priority_weights => '{1}'", "22023", "priority_weights are {1}"),
    ("'orders', priority_weights => '{0, 0}'", "22023", "priority_weights are {0,0}"),
    ("'orders', priority_weights => '{1, null}'", "22023", "priority_weights are {1,NULL}"),
    ("'orders', priority_weights => '{1, -1}'", "22023", "priority_weights are {1,-1}"),
    (
        "'orders', when_waiting => 'skip', priority_weights => '{2, 1}'",
        "22023",
        "a queue has priorities or limits of its keys, not both",
    ),
]


def indexes(connection):
    found = [name for (name,) in rows(connection, INDEXES)]
    assert set(found) >= set(OF_EVERY_QUEUE)
    return [name for name in found if name not in OF_EVERY_QUEUE]


def test_limits_are_set_and_replaced_as_a_whole_under_any_spelling(orders):
    query = (
        "select queue_name, fleet_concurrency, key_concurrency, rate, rate_interval::text, when_waiting, priority_weights "
        "from sluice.queue_limits"
    )

    orders.execute("select sluice.set_queue_limits('orders', 10, 2, 100, '1 minute')")
    assert rows(orders, query) == [("orders", 10, 2, 100, "00:01:00", None, None)]
    orders.execute("select sluice.set_queue_limits('ORDERS', priority_weights => '{16, 4, 1}')")
    assert rows(orders, query) == [("orders", None, None, None, None, None, [16, 4, 1])]


@pytest.mark.parametrize(
    ("limits", "needed"),
    [
        ("rate => 1", []),
        ("fleet_concurrency => 1", ["_claimed_idx"]),
        ("key_concurrency => 2", ["_key_claim_idx", "_key_idx", "_key_vt_idx"]),
        ("when_waiting => 'skip'", ["_key_claim_idx", "_key_idx", "_key_vt_idx", "_waiting_idx"]),
        ("priority_weights => '{2, 1}'", ["_level2_idx", "_level2_vt_idx"]),
        ("priority_weights => '{4, 2, 1}'", ["_level3_idx", "_level3_vt_idx"]),
    ],
)
def test_the_queue_has_the_indexes_that_its_limits_need_and_no_others(orders, limits, needed):
    orders.execute("select sluice.set_queue_limits('orders', 5, when_waiting => 'park')")
    assert len(indexes(orders)) == 5

    orders.execute(f"select sluice.set_queue_limits('orders', {limits})")
    assert indexes(orders) == needed

    orders.execute("select sluice.drop_queue_limits('orders')")
    assert indexes(orders) == []


def test_limits_that_are_as_they_should_be_build_nothing_anew(orders):
    query = "select relfilenode from pg_class where relname = 'q_orders_claimed_idx'"
    orders.execute("select sluice.set_queue_limits('orders', 5)")
    built = value(orders, query)

    orders.execute("select sluice.set_queue_limits('orders', 6)")

    assert value(orders, query) == built


def test_the_limits_go_with_the_queue(orders):
    orders.execute("select sluice.set_queue_limits('orders', 5)")

    orders.execute("select pgmq.drop_queue('orders')")

    assert rows(orders, "select * from sluice.list_queue_limits()") == []


def test_invalid_limit_is_refused_and_changes_nothing(orders):
    for arguments, sqlstate, message in REFUSED:
        with pytest.raises(psycopg.Error) as caught:
            orders.execute(f"select sluice.set_queue_limits({arguments})")

        assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
        assert caught.value.diag.message_hint
    assert rows(orders, "select * from sluice.queue_limits") == []
    assert indexes(orders) == []


def test_a_name_to_which_nothing_can_be_added_is_refused(connection):
    """PGMQ limits new names to 47 bytes, but adopted queues may have longer names."""
    connection.execute(
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values (repeat('n', 48), false, false)"
    )

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="too long for limits"):
        connection.execute("select sluice.set_queue_limits(repeat('n', 48), 1)")


def test_only_an_admin_sets_limits(orders, as_member):
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, "select sluice.set_queue_limits('orders', rate => 1)")

    assert as_member("sluice_admin", "select sluice.set_queue_limits('orders', rate => 1)") == [
        ("",)
    ]
