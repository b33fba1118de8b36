import json

import psycopg
import pytest

from support import rows, value


def changes(connection):
    return [
        (ev_type, json.loads(data)["before"], json.loads(data)["after"])
        for ev_type, data in rows(
            connection, "select ev_type, ev_data from pgq.event_1 order by ev_id"
        )
    ]


def test_each_kind_of_change_with_the_row_before_and_after(connection, captured):
    connection.execute("insert into account values (1, 'a'), (2, 'b')")
    connection.execute("update account set name = upper(name)")
    connection.execute("delete from account where id = 1")
    connection.execute("truncate account")

    assert changes(connection) == [
        ("c", None, {"id": 1, "name": "a"}),
        ("c", None, {"id": 2, "name": "b"}),
        ("u", {"id": 1, "name": "a"}, {"id": 1, "name": "A"}),
        ("u", {"id": 2, "name": "b"}, {"id": 2, "name": "B"}),
        ("d", {"id": 1, "name": "A"}, None),
        ("t", None, None),
    ]


def test_a_key_that_changes_keeps_its_own_row_beside_it(connection, captured):
    connection.execute("insert into account select n, n::text from generate_series(1, 1000) as n")
    connection.execute("delete from pgq.event_1_0")

    connection.execute("update account set id = id + 1000000")

    pairs = [(before, after) for _, before, after in changes(connection)]
    assert len(pairs) == 1000
    assert all(
        after == {"id": before["id"] + 1_000_000, "name": before["name"]} for before, after in pairs
    )


def test_the_envelope_names_its_source(connection, captured):
    with connection.transaction():
        txid = value(connection, "select pg_current_xact_id()::text::bigint")
        connection.execute("insert into account values (1, 'a')")

    ((data, extra1),) = rows(connection, "select ev_data, ev_extra1 from pgq.event_1_0")
    envelope = json.loads(data)
    assert list(envelope) == ["op", "before", "after", "source", "ts_ms"]
    assert envelope["source"] == {
        "schema": "public",
        "table": "account",
        "key": ["id"],
        "txId": txid,
    }
    now_ms = value(connection, "select extract(epoch from clock_timestamp()) * 1000")
    assert 0 <= float(now_ms) - envelope["ts_ms"] < 60_000
    assert extra1 == "public.account"


def test_nothing_changed_is_no_event(connection, captured):
    connection.execute("update account set name = 'x' where false")
    connection.execute("delete from account")

    assert changes(connection) == []


def test_a_rolled_back_change_is_no_event(connection, captured):
    with connection.transaction(force_rollback=True):
        connection.execute("insert into account values (1, 'a')")

    assert changes(connection) == []


def test_the_text_of_a_row_does_not_depend_on_the_session(connection):
    connection.execute(
        "create table odd (at timestamptz, span interval, raw bytea, number numeric, real8 double precision)"
    )
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('odd', 'changes')")
    insert = "insert into odd values ('2026-03-04 05:06:07.000001+00', '1 day 2 hours', '\\x00ff', 1.10, 0.1)"

    connection.execute(insert)
    connection.execute(
        "set timezone = 'Asia/Tokyo'; set intervalstyle = 'postgres_verbose'; set bytea_output = 'escape'; set datestyle = 'German'"
    )
    connection.execute(insert)

    texts = [
        json.loads(data)["after"]
        for (data,) in rows(connection, "select ev_data from pgq.event_1 order by ev_id")
    ]
    assert texts[0] == texts[1]
    assert texts[0] == {
        "at": "2026-03-04T05:06:07.000001+00:00",
        "span": "P1DT2H",
        "raw": "\\x00ff",
        "number": 1.1,
        "real8": 0.1,
    }


def test_a_log_that_is_gone_stops_the_writer_and_says_why(connection, captured):
    connection.execute("select pgq.drop_queue('changes')")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("insert into account values (1, 'a')")
    assert caught.value.sqlstate == "PQ001"
    assert "stop the capture with sluice.drop_capture" in caught.value.diag.message_hint
    assert value(connection, "select count(*) from account") == 0


def test_changes_of_one_row_are_in_the_order_of_their_ids_and_not_of_their_transactions(
    database, connection, captured
):
    connection.execute("insert into account values (1, 'a')")
    with database.connect(autocommit=False) as early:
        # Its transaction's id is the lower one, its change the later one.
        early.execute("select pg_current_xact_id()")
        connection.execute("update account set name = 'first'")
        early.execute("update account set name = 'last'")
        early.commit()

    by_id = [after["name"] for _, _, after in changes(connection)]
    by_txid = rows(
        connection,
        "select ev_data::json #>> '{after,name}' from pgq.event_1 order by ev_txid, ev_id",
    )

    assert value(connection, "select name from account") == "last"
    assert by_id == ["a", "first", "last"]
    assert [name for (name,) in by_txid] == ["a", "last", "first"]


def test_two_statements_that_wait_for_one_row_keep_its_order(database, connection, captured):
    import threading

    from support import wait_for_lock

    connection.execute("insert into account values (1, 'a')")
    with database.connect(autocommit=False) as first, database.connect() as second:
        first.execute("update account set name = 'first'")
        waiting = threading.Thread(
            target=lambda: second.execute("update account set name = 'second'")
        )
        waiting.start()
        wait_for_lock(connection, second)
        first.commit()
        waiting.join(30)

    assert [after["name"] for _, _, after in changes(connection)] == ["a", "first", "second"]
