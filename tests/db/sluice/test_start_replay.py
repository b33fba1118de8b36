import psycopg
import pytest

from support import rows, value


def start(connection, arguments):
    return value(connection, f"select sluice.start_replay({arguments})")


def finish(connection, replay_id):
    while not value(connection, "select finished from sluice.continue_replay(%s, 2)", replay_id):
        pass
    return [
        row[0]
        for row in rows(connection, "select message -> 'n' from pgmq.q_again order by msg_id")
    ]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("", [1, 2, 3, 4]),
        (", '{\"odd\": true}'", [1, 3]),
        (", conditional_headers => '{\"h\": 1}'", [1, 4]),
        (", since => '2026-01-02 00:00+00', until => '2026-01-04 00:00+00'", [2, 3]),
        (", until => '2025-01-01 00:00+00'", []),
    ],
)
def test_a_replay_sends_what_its_filter_matches_in_order(orders, condition, wanted):
    orders.execute(
        "update pgmq.a_orders set archived_at = '2026-01-01 00:00+00'::timestamptz + make_interval(days => msg_id::int - 1)"
    )

    assert finish(orders, start(orders, f"'orders', 'again'{condition}")) == wanted


def test_to_begin_sends_nothing(orders):
    start(orders, "'orders', 'again'")

    assert value(orders, "select count(*) from pgmq.q_again") == 0


def test_an_empty_archive_is_finished_at_once(orders):
    assert finish(orders, start(orders, "'again'")) == []


def test_messages_archived_later_are_not_replayed_even_with_lower_ids(orders):
    orders.execute("select pgmq.archive('orders', 8)")
    replay_id = start(orders, "'orders', 'again'")
    orders.execute("select pgmq.archive('orders', array[6, 9]::bigint[])")
    # The time of a message whose transaction started before the replay.
    orders.execute("update pgmq.a_orders set archived_at = '2026-01-01 00:00+00' where msg_id = 9")

    assert finish(orders, replay_id) == [1, 2, 3, 4, 8]


def test_a_replay_into_its_own_queue_ends_though_what_it_sends_is_archived_again(orders):
    replay_id = start(orders, "'orders'")
    sent = 0
    for _ in range(20):
        replayed, _, finished = rows(
            orders, "select * from sluice.continue_replay(%s, 2)", replay_id
        )[0]
        sent += replayed
        orders.execute(
            "with taken as (select array_agg(msg_id) as ids from pgmq.read('orders', 600, 100)) "
            "select pgmq.archive('orders', ids) from taken"
        )
        orders.execute("update pgmq.a_orders set archived_at = '2026-01-01 00:00+00'")
        if finished:
            break

    assert (sent, finished) == (4, True)


@pytest.mark.parametrize("arguments", ["'missing'", "'orders', 'missing'"])
def test_an_unknown_queue_is_named(orders, arguments):
    with pytest.raises(psycopg.Error) as caught:
        start(orders, arguments)

    assert caught.value.sqlstate == "QU005"


def test_only_an_admin_replays_without_being_superuser(orders, as_member):
    query = "select * from sluice.continue_replay(sluice.start_replay('orders', 'again'))"

    assert as_member("sluice_admin", query) == [(4, 4, True)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
