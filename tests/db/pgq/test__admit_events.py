"""pgq._admit_events: the limit of events per transaction; producers' tests cover other errors."""

import psycopg
import pytest

from support import rows, value

INSERT = "select pgq.insert_event('changes', 't', 'd')"


@pytest.fixture
def limited(connection, log):
    connection.execute("update pgq.queue set queue_per_tx_limit = 3")


def test_a_transaction_may_insert_up_to_the_limit_and_no_more(connection, limited):
    with connection.transaction():
        connection.execute(f"{INSERT} from generate_series(1, 3)")
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(INSERT)

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "Queue 'changes' allows max 3 events from one TX",
    )
    assert "queue_per_tx_limit" in caught.value.diag.message_hint
    assert value(connection, "select count(*) from pgq.event_1") == 3


def test_the_next_transaction_counts_anew(connection, limited):
    for _ in range(2):
        connection.execute(f"{INSERT} from generate_series(1, 3)")

    assert value(connection, "select count(*) from pgq.event_1") == 6


def test_a_transaction_that_was_rolled_back_does_not_count(connection, limited):
    with connection.transaction(force_rollback=True):
        connection.execute(f"{INSERT} from generate_series(1, 3)")

    connection.execute(f"{INSERT} from generate_series(1, 3)")


def test_events_of_a_savepoint_count_unless_it_is_rolled_back(connection, limited):
    with connection.transaction():
        connection.execute(INSERT)
        with connection.transaction(force_rollback=True):
            connection.execute(f"{INSERT} from generate_series(1, 2)")
        with connection.transaction():
            connection.execute(f"{INSERT} from generate_series(1, 2)")
        with pytest.raises(psycopg.Error, match="allows max 3"), connection.transaction():
            connection.execute(INSERT)

    assert value(connection, "select count(*) from pgq.event_1") == 3


def test_an_event_that_failed_does_not_count(connection, limited):
    with connection.transaction():
        for _ in range(3):
            with pytest.raises(psycopg.Error, match="allows max 3"), connection.transaction():
                connection.execute(
                    "select sluice.insert_events('changes', null, array['1', '2', '3', '4'])"
                )
        connection.execute(f"{INSERT} from generate_series(1, 3)")


def test_all_ways_to_insert_count_together_and_each_log_for_itself(connection, limited):
    connection.execute("select pgq.create_queue('other')")
    connection.execute("update pgq.queue set queue_per_tx_limit = 1 where queue_name = 'other'")

    with connection.transaction():
        connection.execute(INSERT)
        connection.execute("select sluice.insert_events('changes', null, array['2'])")
        connection.execute(
            """select pgq.insert_event_raw('changes', null, null, null, null, 't', '3',
                                           null, null, null, null)"""
        )
        connection.execute("select pgq.insert_event('other', 't', 'd')")
        for name in ("changes", "other"):
            with pytest.raises(psycopg.Error, match=f"'{name}' allows"), connection.transaction():
                connection.execute("select pgq.insert_event(%s, 't', 'd')", [name])


def test_a_limit_of_zero_refuses_every_event(connection, log):
    connection.execute("update pgq.queue set queue_per_tx_limit = 0")

    with pytest.raises(psycopg.Error, match="allows max 0 events"):
        connection.execute(INSERT)


def test_a_writer_is_limited_too(connection, limited, role):
    connection.execute(f"grant sluice_writer to {role}")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute(f"{INSERT} from generate_series(1, 3)")
        with pytest.raises(psycopg.Error, match="allows max 3"), connection.transaction():
            connection.execute(INSERT)

    assert rows(connection, "select count(*) from pgq.event_1") == [(3,)]
