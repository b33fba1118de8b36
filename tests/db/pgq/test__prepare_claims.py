import threading

import psycopg
import pytest

from support import value, wait_for_lock

CALL = "select pgq._prepare_claims(1)"


def test_a_log_gets_the_indexes_of_claims_once_and_its_new_segments_with_it(connection, log):
    assert value(connection, CALL) is True
    assert value(connection, CALL) is False
    connection.execute("select pgq._create_segment(1, 3)")

    indexes = dict(
        connection.execute(
            "select indexname, regexp_replace(indexdef, '.*USING ', '') from pg_indexes "
            "where schemaname = 'pgq' and tablename ~ '^event_1(_[0-9])?$'"
        ).fetchall()
    )
    tables = ["event_1", "event_1_0", "event_1_1", "event_1_2", "event_1_3"]
    assert indexes == {f"{t}_id_idx": "btree (ev_id)" for t in tables} | {
        f"{t}_txid_idx": "btree (ev_txid, ev_id)" for t in tables
    }


@pytest.mark.slow
def test_wait_for_an_open_writer_is_bounded(database, connection, log):
    with database.connect(autocommit=False) as writer:
        writer.execute("select pgq.insert_event('changes', 't', 'd')")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(CALL)
        writer.rollback()

    assert caught.value.sqlstate == "SG005"
    assert caught.value.diag.message_hint == "try again when that transaction has ended"
    assert value(connection, CALL) is True


def test_concurrent_reader_is_awaited_and_not_blocked(database, connection, log):
    with database.connect(autocommit=False) as reader, database.connect() as maker:
        # The first lock of a reader of the log, which locks the parent before the segments.
        reader.execute("lock table only pgq.event_1 in access share mode")
        made = []
        thread = threading.Thread(target=lambda: made.append(value(maker, CALL)))
        thread.start()
        wait_for_lock(connection, maker)

        reader.execute("set local lock_timeout = '1s'")
        assert value(reader, "select count(*) from pgq.event_1") == 0
        reader.commit()
        thread.join(10)

    assert made == [True]
