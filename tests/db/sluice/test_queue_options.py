"""sluice.queue_options: the options of one queue or of all, as they apply."""

import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

OPTIONS = {
    "archive_retention": "30 days",
    "max_attempts": 3,
    "backoff": "constant",
    "backoff_base": "00:00:02",
    "backoff_max": "00:00:03",
    "backoff_jitter": False,
    "backoff_factor": 1.5,
    "deduplication_window": "01:00:00",
    "fleet_concurrency": 9,
    "key_concurrency": 2,
    "rate": 7,
    "rate_interval": "01:00:00",
    "when_waiting": None,
    "priority_weights": None,
    "limits_by": None,
    "pause_reason": None,
}
DEFAULTS = dict.fromkeys(OPTIONS) | {
    "max_attempts": 5,
    "backoff": "exponential",
    "backoff_base": "00:00:01",
    "backoff_max": "00:05:00",
    "backoff_jitter": True,
    "backoff_factor": 2,
}
ALL = "select queue_name, to_jsonb(o) from sluice.queue_options() as o"


@pytest.fixture
def queues(connection):
    connection.execute("set intervalstyle = 'postgres'")
    connection.execute("select pgmq.create('Orders'), pgmq.create('mail')")
    return connection


def listed(connection):
    return {
        name: {option: found[option] for option in OPTIONS} for name, found in rows(connection, ALL)
    }


def test_options_of_each_queue_are_listed_with_the_defaults_of_the_retry_policy(queues):
    assert listed(queues) == {"Orders": DEFAULTS, "mail": DEFAULTS}

    set_queue_options(queues, "orders", **{k: v for k, v in OPTIONS.items() if k != "limits_by"})
    set_queue_options(queues, "mail", backoff="linear", priority_weights=[2, 1])

    of_mail = DEFAULTS | {"backoff": "linear", "priority_weights": [2, 1]}
    assert listed(queues) == {"Orders": OPTIONS, "mail": of_mail}


def test_queues_are_listed_by_name(queues):
    queues.execute("select pgmq.create('a'), pgmq.create('zz')")
    names = "select queue_name from sluice.queue_options()"

    assert rows(queues, names) == rows(queues, "select queue_name from pgmq.meta order by 1")


def test_one_queue_is_found_by_any_spelling_of_its_name(queues):
    query = "select queue_name, queue_table, max_attempts from sluice.queue_options(%s)"
    set_queue_options(queues, "mail", max_attempts=3)

    assert rows(queues, query, "ORDERS") == [("Orders", "q_orders", 5)]
    assert rows(queues, query, "mail") == [("mail", "q_mail", 3)]


def test_missing_queue_is_named(queues):
    with pytest.raises(psycopg.Error) as caught:
        queues.execute("select * from sluice.queue_options('nope')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "QU005",
        "queue 'nope' does not exist",
    )


def test_pause_is_listed_with_its_author_and_reason(orders):
    query = "select queue_name, paused_by, pause_reason from sluice.queue_options() where paused_at <= clock_timestamp()"
    assert rows(orders, query) == []

    set_queue_options(orders, "orders", paused=True, pause_reason="bank is down")
    set_queue_options(orders, "again", paused=True)

    by = f"role {orders.info.user}"
    assert rows(orders, query) == [("again", by, None), ("orders", by, "bank is down")]


def test_declared_limits_name_their_handler(orders):
    orders.execute("select sluice.set_queue_options('orders', '{\"rate\": 1}', 'pack')")

    assert value(orders, "select limits_by from sluice.queue_options('orders')") == "pack"


@pytest.mark.parametrize(
    "member_of", ["sluice_admin", "sluice_reader", "sluice_writer", "sluice_monitor"]
)
def test_all_roles_list_options(queues, as_member, member_of):
    set_queue_options(queues, "mail", max_attempts=3)
    query = "select queue_name, max_attempts from sluice.queue_options()"

    assert as_member(member_of, query) == [("Orders", 5), ("mail", 3)]
