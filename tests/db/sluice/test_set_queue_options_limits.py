"""sluice.set_queue_options: limits, key order and priorities.

Also covers _limits, _require_limits, _build_limits and _limit_indexes.
"""

import psycopg
import pytest

from support import rows, value
from support.queue_options import NO_LIMITS, set_queue_options

INDEXES = """
select substr(c.relname, length('q_orders') + 1)
from pg_index as i
join pg_class as c on c.oid = i.indexrelid
where i.indrelid = 'pgmq.q_orders'::regclass
order by 1
"""
OF_EVERY_QUEUE = ["_pkey", "_ready_idx", "_vt_idx"]
REFUSED = [
    ({"fleet_concurrency": 0}, "fleet_concurrency is 0"),
    ({"key_concurrency": 0}, "key_concurrency is 0"),
    ({"rate": 0}, "rate is 0"),
    ({"rate": 1, "rate_interval": "0"}, "rate_interval is 00:00:00"),
    ({"rate": 1, "rate_interval": "-1 s"}, "rate_interval is -00:00:01"),
    ({"rate": 1, "rate_interval": "101 years"}, "rate_interval is 101 years"),
    ({"when_waiting": "wait"}, "when_waiting is 'wait'"),
    (
        {"key_concurrency": 2, "when_waiting": "block"},
        "key_concurrency is 2 where messages of a key are claimed in order",
    ),
    ({"priority_weights": [1]}, "priority_weights are {1}"),
    ({"priority_weights": [0, 0]}, "priority_weights are {0,0}"),
    ({"priority_weights": [1, None]}, "priority_weights are {1,NULL}"),
    ({"priority_weights": [1, -1]}, "priority_weights are {1,-1}"),
    (
        {"when_waiting": "skip", "priority_weights": [2, 1]},
        "a queue has priorities or limits of its keys, not both",
    ),
]


def indexes(connection):
    found = [name for (name,) in rows(connection, INDEXES)]
    assert set(found) >= set(OF_EVERY_QUEUE)
    return [name for name in found if name not in OF_EVERY_QUEUE]


def test_limits_are_set_and_changed_under_any_spelling(orders):
    orders.execute("set intervalstyle = 'postgres'")
    query = "select queue_name, sluice._limits(s) from sluice.queue_settings as s"
    wanted = {
        "fleet_concurrency": 10,
        "key_concurrency": 2,
        "rate": 100,
        "rate_interval": "00:01:00",
    }

    set_queue_options(orders, "orders", **wanted)
    assert rows(orders, query) == [("orders", wanted)]
    changed = {"fleet_concurrency": 9, "key_concurrency": None, "priority_weights": [16, 4, 1]}
    set_queue_options(orders, "ORDERS", **changed)
    del wanted["key_concurrency"]
    wanted |= {"fleet_concurrency": 9, "priority_weights": [16, 4, 1]}
    assert rows(orders, query) == [("orders", wanted)]
    set_queue_options(orders, "orders", **NO_LIMITS)
    assert rows(orders, query) == [("orders", {})]


def test_rate_is_per_second_until_an_interval_is_given_and_has_none_without_a_rate(orders):
    query = "select rate, extract(epoch from rate_interval)::int from sluice.queue_settings"
    for options, wanted in (
        ({"rate": 3}, (3, 1)),
        ({"rate_interval": "1 minute"}, (3, 60)),
        ({"rate": 5}, (5, 60)),
        ({"rate_interval": None}, (5, 1)),
        ({"rate": None}, (None, None)),
        ({"fleet_concurrency": 3, "rate_interval": "1 hour"}, (None, None)),
    ):
        set_queue_options(orders, "orders", **options)
        assert rows(orders, query) == [wanted]


@pytest.mark.parametrize(
    ("limits", "needed"),
    [
        ({"rate": 1}, []),
        ({"fleet_concurrency": 1}, ["_claimed_idx"]),
        ({"key_concurrency": 2}, ["_key_claim_idx", "_key_idx", "_key_vt_idx"]),
        ({"when_waiting": "skip"}, ["_key_claim_idx", "_key_idx", "_key_vt_idx", "_waiting_idx"]),
        ({"priority_weights": [2, 1]}, ["_level2_idx", "_level2_vt_idx"]),
        ({"priority_weights": [4, 2, 1]}, ["_level3_idx", "_level3_vt_idx"]),
    ],
)
def test_the_queue_has_the_indexes_that_its_limits_need_and_no_others(orders, limits, needed):
    set_queue_options(orders, "orders", fleet_concurrency=5, when_waiting="park")
    assert len(indexes(orders)) == 5

    set_queue_options(orders, "orders", **NO_LIMITS | limits)
    assert indexes(orders) == needed

    set_queue_options(orders, "orders", **NO_LIMITS)
    assert indexes(orders) == []


def test_limits_that_are_as_they_should_be_build_nothing_anew(orders):
    query = "select relfilenode from pg_class where relname = 'q_orders_claimed_idx'"
    set_queue_options(orders, "orders", fleet_concurrency=5)
    built = value(orders, query)

    set_queue_options(orders, "orders", fleet_concurrency=6)

    assert value(orders, query) == built


def test_option_that_is_no_limit_builds_and_drops_nothing(orders):
    query = "select relfilenode from pg_class where relname = 'q_orders_claimed_idx'"
    set_queue_options(orders, "orders", fleet_concurrency=5)
    built = value(orders, query)

    set_queue_options(orders, "orders", paused=True, archive_retention="1 day", max_attempts=3)

    assert value(orders, query) == built


def test_invalid_limit_is_refused_and_changes_nothing(orders):
    for options, message in REFUSED:
        with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
            set_queue_options(orders, "orders", **options)

        assert caught.value.diag.message_primary == message
        assert caught.value.diag.message_hint
    assert rows(orders, "select * from sluice.queue_settings") == []
    assert indexes(orders) == []


def test_limit_that_contradicts_a_stored_one_is_refused(orders):
    set_queue_options(orders, "orders", key_concurrency=2, archive_retention="1 day")
    kept = rows(orders, "select * from sluice.queue_settings")

    for options in ({"when_waiting": "block"}, {"priority_weights": [2, 1]}):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            set_queue_options(orders, "orders", **options)
        assert rows(orders, "select * from sluice.queue_settings") == kept

    set_queue_options(orders, "orders", key_concurrency=None, when_waiting="block")


def test_a_name_to_which_nothing_can_be_added_is_refused(connection):
    """PGMQ limits new names to 47 bytes, but adopted queues may have longer names."""
    connection.execute(
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values (repeat('n', 48), false, false)"
    )

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="too long for limits"):
        set_queue_options(connection, "n" * 48, rate=1)
    set_queue_options(connection, "n" * 48, max_attempts=3)


def test_queue_without_limits_is_read_as_any_other(orders):
    set_queue_options(orders, "orders", fleet_concurrency=1)
    assert rows(orders, "select msg_id from sluice.claim_messages('orders', 30, 9)") == []

    assert set_queue_options(orders, "Orders", **NO_LIMITS) == "changed"

    assert rows(orders, "select msg_id from sluice.claim_messages('orders', 30, 9)") == [(8,), (9,)]
    assert set_queue_options(orders, "orders", **NO_LIMITS) == "unchanged"


def test_limits_set_again_forget_earlier_starts_and_parked_keys(connection):
    connection.execute("select pgmq.create('q')")
    limits = {"rate": 2, "rate_interval": "1 hour"}
    claim = "select msg_id from sluice.claim_messages('q', 30, 1)"
    set_queue_options(connection, "q", **limits, when_waiting="park", max_attempts=3)
    connection.execute(
        "select pgmq.send_batch('q', '{1, 2}', array_fill('{\"x-pgmq-group\": \"k\"}'::jsonb, '{2}'))"
    )
    assert rows(connection, claim) == [(1,)]
    connection.execute("select sluice.release('q', 1, 1, 600)")
    assert rows(connection, claim) == []
    assert value(connection, "select count(*) from sluice.parked_key") == 1

    set_queue_options(connection, "q", **NO_LIMITS)
    assert value(connection, "select count(*) from sluice.parked_key") == 0
    set_queue_options(connection, "q", **limits, when_waiting="skip")

    assert rows(connection, claim) == [(2,)]
    assert rows(connection, "select started from sluice.list_limit_usage()") == [(1,)]


def test_changed_limits_keep_earlier_starts(orders):
    set_queue_options(orders, "orders", rate=2, rate_interval="1 hour")
    claim = "select msg_id from sluice.claim_messages('orders', 30, 9)"
    assert rows(orders, claim) == [(8,), (9,)]
    orders.execute("select pgmq.send('orders', '1')")

    set_queue_options(orders, "orders", fleet_concurrency=9, paused=True)
    set_queue_options(orders, "orders", paused=None)

    assert rows(orders, claim) == []
    set_queue_options(orders, "orders", rate=3)
    assert rows(orders, claim) == [(10,)]
