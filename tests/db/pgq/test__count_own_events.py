"""pgq._count_own_events: the limit of events holds if a session changes the setting that counts."""

import psycopg
import pytest

from support import value

LIMIT = 100


@pytest.mark.parametrize("forged", ["0", "-1000000", "", "x", "1"])
def test_a_changed_setting_does_not_lift_the_limit_of_a_transaction(database, connection, forged):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(f"update pgq.queue set queue_per_tx_limit = {LIMIT}".encode())
    forge = f"select set_config('sluice.events_in_transaction_1', '{forged}', true)".encode()
    insert = b"select pgq.insert_event('changes', 't', 'd')"
    with database.connect(autocommit=False) as session:
        for _ in range(LIMIT):
            session.execute(forge)
            session.execute(insert)
        session.execute(forge)
        with pytest.raises(psycopg.Error, match="allows max 100 events from one TX"):
            session.execute(insert)


def test_it_counts_what_a_savepoint_kept(connection):
    connection.execute("select pgq.create_queue('changes')")
    with connection.transaction():
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        with connection.transaction(force_rollback=True):
            connection.execute("select pgq.insert_event('changes', 't', 'd')")
            assert value(connection, "select pgq._count_own_events(1, 10)") == 2
        assert value(connection, "select pgq._count_own_events(1, 10)") == 1
    assert value(connection, "select pgq._count_own_events(1, 10)") == 0
