import psycopg
import pytest

from support import rows, value


def test_a_log_has_the_tables_sequences_and_first_tick_of_pgq(connection):
    assert value(connection, "select pgq.create_queue('changes')") == 1

    assert rows(
        connection,
        "select queue_id, queue_name, queue_ntables, queue_cur_table, queue_data_pfx, queue_event_seq, queue_tick_seq from pgq.queue",
    ) == [(1, "changes", 3, 0, "pgq.event_1", "pgq.event_1_id_seq", "pgq.event_1_tick_seq")]
    assert rows(connection, "select relname from pg_class where relname ~ '^event_1' order by 1") == [
        ("event_1",), ("event_1_0",), ("event_1_0_txid_idx",), ("event_1_1",), ("event_1_1_txid_idx",),
        ("event_1_2",), ("event_1_2_txid_idx",), ("event_1_id_seq",), ("event_1_tick_seq",),
        ("event_1_txid_idx",),
    ]  # fmt: skip
    assert rows(connection, "select tick_queue, tick_id, tick_event_seq from pgq.tick") == [
        (1, 1, 0)
    ]


def test_the_settings_are_those_of_pgq(connection, log):
    connection.execute("select pgq.create_queue('other')")

    settings = rows(
        connection,
        """select queue_ticker_max_count, queue_ticker_max_lag::text, queue_ticker_idle_period::text,
               queue_rotation_period::text, queue_external_ticker, queue_disable_insert, queue_ticker_paused
           from pgq.queue where queue_name = 'other'""",
    )
    assert settings == [(500, "00:00:03", "00:01:00", "02:00:00", False, False, False)]


def test_creating_it_again_returns_0_and_keeps_the_events(connection, log):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert value(connection, "select pgq.create_queue('changes')") == 0
    assert value(connection, "select count(*) from pgq.event_1") == 1


def test_null_is_refused(connection):
    with pytest.raises(psycopg.Error, match="Invalid NULL value"):
        connection.execute("select pgq.create_queue(null)")


def test_a_second_creation_of_the_name_waits_and_then_returns_0(database):
    with database.connect(autocommit=False) as first, database.connect() as second:
        first.execute("select pgq.create_queue('changes')")
        second.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("select pgq.create_queue('changes')")
        first.commit()
        assert value(second, "select pgq.create_queue('changes')") == 0


def test_transaction_ids_are_64_bits_wide_everywhere(connection, log):
    types = rows(
        connection,
        """select distinct format_type(a.atttypid, a.atttypmod) from pg_attribute as a
           join pg_class as c on c.oid = a.attrelid
           where c.relnamespace = 'pgq'::regnamespace and a.attnum > 0
             and c.relkind = 'r' and a.attname in ('ev_txid', 'queue_switch_step1', 'queue_switch_step2', 'tick_snapshot') order by 1""",
    )
    assert types == [("pg_snapshot",), ("xid8",)]
