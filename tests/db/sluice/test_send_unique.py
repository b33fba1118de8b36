"""sluice.send and sluice.send_batch with a key until its message is claimed or done, and duplicates that change the first."""

import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

STORED = "select msg_id, message, headers from pgmq.q_orders order by 1"
DELAY_S = (
    "select round(extract(epoch from vt - clock_timestamp())) from pgmq.q_orders where msg_id = %s"
)
ENDS = {
    "delete": "select pgmq.delete('orders', 1)",
    "archive": "select pgmq.archive('orders', 1)",
    "reject": "select sluice.reject('orders', 1, 0, 'bad')",
}


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


def send(connection, message="1", key="k", delay=0, headers=None, **options):
    """Send with the options of one message, or with those of the queue."""
    call = "select sluice.send('orders', %s, %s, %s, %s::integer, %s)"
    given = psycopg.types.json.Jsonb(options) if options else None
    return value(connection, call, message, key, headers, delay, given)


def claim(connection):
    connection.execute("select from pgmq.read('orders', 600, 1)")


def stored_or_given(orders, is_stored, **options):
    """Return the options to send with: none if they are stored for the queue."""
    if is_stored:
        set_queue_options(orders, "orders", **options)
        return {}
    return options


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "given"])
@pytest.mark.parametrize("end", ENDS)
def test_a_key_until_done_is_known_until_its_message_has_left_the_queue(orders, is_stored, end):
    options = stored_or_given(orders, is_stored, deduplication_until="done")

    assert [send(orders, **options), send(orders, **options)] == [1, 1]
    assert send(orders, key="other", **options) == 2
    if end == "reject":
        claim(orders)
        assert send(orders, **options) == 1
        orders.execute("select sluice.reject('orders', 1, 1, 'bad')")
    else:
        orders.execute(ENDS[end])

    assert [send(orders, **options), send(orders, **options)] == [3, 3]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "given"])
def test_a_key_until_claimed_is_known_until_its_message_is_claimed(orders, is_stored):
    options = stored_or_given(orders, is_stored, deduplication_until="claimed")

    assert [send(orders, **options), send(orders, **options)] == [1, 1]
    claim(orders)

    assert [send(orders, **options), send(orders, **options)] == [2, 2]
    orders.execute("select pgmq.delete('orders', 2)")
    assert send(orders, **options) == 3


def test_a_message_whose_lease_expired_counts_as_claimed(orders):
    send(orders, deduplication_until="claimed")
    claim(orders)
    orders.execute("select pgmq.set_vt('orders', 1, 0)")

    assert send(orders, deduplication_until="claimed") == 2


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "given"])
@pytest.mark.parametrize(
    "lifetime",
    [
        {"deduplication_until": "claimed"},
        {"deduplication_until": "done"},
        {"deduplication_window": "5 minutes"},
    ],
    ids=["claimed", "done", "window"],
)
def test_a_duplicate_moves_the_time_or_replaces_the_message_that_is_not_claimed(
    orders, is_stored, lifetime
):
    options = stored_or_given(orders, is_stored, on_duplicate="debounce", **lifetime)
    assert send(orders, "1", delay=60, **options) == 1
    assert send(orders, "2", delay=600, headers='{"h": 1}', **options) == 1
    assert rows(orders, STORED) == [(1, 1, None)]
    assert value(orders, DELAY_S, 1) in (599, 600)

    options = stored_or_given(orders, is_stored, on_duplicate="replace", **lifetime)
    assert send(orders, "3", delay=30, headers='{"h": 1}', **options) == 1
    assert rows(orders, STORED) == [(1, 3, {"h": 1})]
    assert value(orders, DELAY_S, 1) in (29, 30)
    assert send(orders, "4", **options) == 1
    assert rows(orders, STORED) == [(1, 4, None)]

    claim(orders)
    again = send(orders, "5", **options)
    assert again == (2 if lifetime == {"deduplication_until": "claimed"} else 1)
    assert rows(orders, STORED)[0] == (1, 4, None)
    assert value(orders, DELAY_S, 1) > 500


def test_a_message_that_waits_for_a_retry_is_replaced_and_keeps_its_attempts(orders):
    options = {"deduplication_until": "done", "on_duplicate": "replace"}
    send(orders, "1", **options)
    claim(orders)
    orders.execute("select sluice.release('orders', 1, 1, 600)")

    assert send(orders, "2", **options) == 1
    assert rows(orders, "select message, read_ct > 0 from pgmq.q_orders") == [(2, True)]


def test_the_lifetime_of_a_message_takes_the_place_of_that_of_the_queue(orders):
    set_queue_options(orders, "orders", deduplication_until="done", on_duplicate="replace")

    send(orders, "1", deduplication_window="1 hour")
    assert send(orders, "2", deduplication_window="1 hour") == 1
    assert value(orders, "select message from pgmq.q_orders") == 1
    assert send(orders, "3", on_duplicate="debounce") == 1
    assert value(orders, "select message from pgmq.q_orders") == 1
    orders.execute("select pgmq.delete('orders', 1)")
    assert send(orders, "4", deduplication_window="1 hour") == 1


def test_an_option_of_a_message_needs_no_options_of_the_queue_and_stores_none(orders):
    send(orders, deduplication_until="done")

    assert rows(
        orders,
        "select deduplication_window, deduplication_until, on_duplicate from sluice.queue_options('orders')",
    ) == [(None, None, None)]
    with pytest.raises(psycopg.Error) as caught:
        send(orders)
    assert caught.value.sqlstate == "QU004"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deduplication_until": "read"}, "deduplication_until is 'read'"),
        ({"deduplication_until": "done", "on_duplicate": "drop"}, "on_duplicate is 'drop'"),
        (
            {"deduplication_until": "done", "deduplication_window": "1 h"},
            "either a deduplication_window or",
        ),
        ({"deduplication_window": "0"}, "not positive"),
        ({"rate": 1}, "a message has no option 'rate'"),
    ],
)
def test_invalid_options_of_a_message_are_refused(orders, options, words):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
        send(orders, **options)

    assert rows(orders, STORED) == []


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "given"])
def test_a_batch_is_sent_in_its_order_each_key_once(orders, is_stored):
    options = stored_or_given(orders, is_stored, deduplication_until="done")
    call = "select * from sluice.send_batch('orders', %s::jsonb[], %s::text[], null, 0, %s)"
    given = psycopg.types.json.Jsonb(options) if options else None

    first = rows(orders, call, ["1", "2", "3", "4"], ["b", None, "a", "b"], given)
    again = rows(orders, call, ["5", "6"], ["a", None], given)

    assert first == [(1,), (2,), (3,), (1,)]
    assert again == [(3,), (4,)]
    assert [message for _, message, _ in rows(orders, STORED)] == [1, 2, 3, 6]


def test_a_batch_replaces_with_the_last_message_of_a_key(orders):
    set_queue_options(orders, "orders", deduplication_until="claimed", on_duplicate="replace")
    call = "select * from sluice.send_batch('orders', %s::jsonb[], %s::text[])"

    assert rows(orders, call, ["1", "2", "3"], ["a", "b", "a"]) == [(1,), (2,), (1,)]
    assert [message for _, message, _ in rows(orders, STORED)] == [3, 2]


def test_a_writer_changes_only_messages_that_were_sent_with_its_key(orders):
    options = {"deduplication_until": "done", "on_duplicate": "replace"}
    orders.execute("drop role if exists unique_writer")
    orders.execute("create role unique_writer in role sluice_writer")
    orders.execute("select pgmq.send('orders', '\"other\"')")
    try:
        orders.execute("set role unique_writer")
        assert [send(orders, "1", **options), send(orders, "2", **options)] == [2, 2]
        # As a forger would record the id of another message for its key.
        orders.execute(
            "select sluice._take_deduplication_keys(%s, false, 'forged', now(), now() + interval '1 h')",
            [space(orders)],
        )
        orders.execute(
            "select sluice._note_deduplication_ids(%s, false, 'forged', 1::bigint)", [space(orders)]
        )
        assert send(orders, "3", key="forged", **options) == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            orders.execute("update pgmq.q_orders set message = '4'")
    finally:
        orders.execute("reset role")
    assert [message for _, message, _ in rows(orders, STORED)] == ["other", 2]
    orders.execute("set role sluice_reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        send(orders, "5", **options)
    orders.execute("reset role")
    orders.execute("drop role if exists unique_other")
    orders.execute("create role unique_other in role sluice_writer")
    orders.execute("set role unique_other")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="belongs to role unique_writer"):
        send(orders, "6", **options)
    orders.execute("reset role")
    orders.execute("drop role unique_writer, unique_other")


def space(connection):
    return value(connection, "select deduplication_id from sluice.queue_settings")


def test_the_definer_checks_the_right_to_send(orders):
    orders.execute("drop role if exists unique_nobody")
    orders.execute("create role unique_nobody")
    orders.execute("grant usage on schema sluice, pgmq to unique_nobody")
    orders.execute(
        "grant execute on function sluice.send(text, jsonb, text, jsonb, timestamptz, jsonb) to unique_nobody"
    )
    orders.execute("set role unique_nobody")

    with pytest.raises(
        psycopg.errors.InsufficientPrivilege, match="permission denied for table q_orders"
    ):
        orders.execute(
            "select sluice.send('orders', '1', 'k', null, now(), '{\"deduplication_until\": \"done\"}'::jsonb)"
        )
    orders.execute("reset role")
    orders.execute("drop owned by unique_nobody")
    orders.execute("drop role unique_nobody")


def test_keys_of_messages_in_the_queue_survive_maintenance_and_others_do_not(orders):
    for key, until in (
        ("waits", "done"),
        ("gone", "done"),
        ("claims", "claimed"),
        ("window", None),
    ):
        options = {"deduplication_until": until} if until else {"deduplication_window": "1 hour"}
        send(orders, key=key, **options)
    orders.execute("select pgmq.delete('orders', 2)")
    orders.execute("update sluice.deduplication_key set expires_at = now()")

    assert value(orders, "select detail from sluice._maintain_keys()") == "2 expired keys removed"
    assert rows(orders, "select * from sluice._maintain_keys()") == []

    assert rows(
        orders, "select key, expires_at > now() from sluice.deduplication_key order by 1"
    ) == [
        ("claims", True),
        ("waits", True),
    ]
    assert send(orders, key="waits", deduplication_until="done") == 1
    orders.execute("select pgmq.drop_queue('orders')")
    orders.execute("update sluice.deduplication_key set expires_at = now()")
    assert value(orders, "select detail from sluice._maintain_keys()") == "2 expired keys removed"
