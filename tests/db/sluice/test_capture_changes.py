"""Captured changes, with _capture_shape (columns and key) and _capture_target."""

import json

import psycopg
import pytest

from support import rows, value
from support.capture import apply, contents, copy_of, logged


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


def test_changed_key_pairs_each_row_with_its_row_before(connection, captured):
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
        # The transaction with the lower id makes the later change.
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


def test_columns_come_go_and_get_other_names(connection, captured):
    connection.execute("alter table account add extra int default 7")
    connection.execute("insert into account values (1, 'a')")
    connection.execute("alter table account rename name to label")
    connection.execute("update account set label = 'b'")
    connection.execute("alter table account drop extra")
    connection.execute("alter table account rename id to number")
    connection.execute("delete from account")

    assert changes(connection) == [
        ("c", None, {"id": 1, "name": "a", "extra": 7}),
        ("u", {"id": 1, "label": "a", "extra": 7}, {"id": 1, "label": "b", "extra": 7}),
        ("d", {"number": 1, "label": "b"}, None),
    ]
    assert value(
        connection,
        "select ev_data::json #>> '{source,key}' from pgq.event_1 order by ev_id desc limit 1",
    ) == '["number"]'  # fmt: skip


def test_a_table_with_another_name_says_its_name(connection, captured):
    connection.execute("create schema elsewhere; alter table account set schema elsewhere")
    connection.execute("alter table elsewhere.account rename to person")
    connection.execute("insert into elsewhere.person values (1, 'a')")

    assert value(connection, "select ev_extra1 from pgq.event_1") == "elsewhere.person"


def test_an_ignored_column_that_is_renamed_does_not_get_out(connection, captured):
    connection.execute("""select sluice.capture('account', 'changes', '{"ignore": ["name"]}')""")
    connection.execute("alter table account rename name to hidden")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("insert into account values (1, 'a')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ007",
        "captured table public.account has no column name",
    )
    assert changes(connection) == []


def test_generated_columns_are_captured_where_they_are_stored(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "create table account (id int, stored int generated always as (id * 2) stored)"
    )
    if connection.info.server_version >= 180000:
        connection.execute("alter table account add virtual int generated always as (id * 3)")
    connection.execute("select sluice.capture('account', 'changes')")
    connection.execute("insert into account values (1)")

    assert changes(connection) == [("c", None, {"id": 1, "stored": 2})]


def test_odd_columns(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        """create table odd ("r" int primary key, "c" int, "Ab ""c" int, "%s" int, "$1" int, "o.key" int, "position" int)"""
    )
    connection.execute("select sluice.capture('odd', 'changes')")
    connection.execute("insert into odd values (1, 2, 3, 4, 5, 6, 7)")
    connection.execute("update odd set c = 0")

    names = ["r", "c", 'Ab "c', "%s", "$1", "o.key", "position"]
    row = dict(zip(names, range(1, 8), strict=True))
    assert changes(connection) == [("c", None, row), ("u", row, {**row, "c": 0})]


def test_a_table_without_columns(connection):
    connection.execute("create table bare (); select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('bare', 'changes')")
    connection.execute("insert into bare default values")

    assert changes(connection) == [("c", None, {})]


@pytest.fixture
def partitioned(connection):
    """A captured partitioned table with a reordered partition and a partitioned one."""
    connection.execute(
        """create table account (id int, name text, primary key (id)) partition by range (id);
        create table low (name text, id int not null);
        alter table account attach partition low for values from (0) to (100);
        create table high partition of account for values from (100) to (1000) partition by range (id);
        create table high_1 partition of high default;
        select pgq.create_queue('changes')"""
    )
    connection.execute("select sluice.capture('account', 'changes')")
    return connection


def test_changes_of_partitions_are_captured_once_by_parent_or_partition(partitioned):
    partitioned.execute("insert into account values (1, 'a'), (100, 'b')")
    partitioned.execute("insert into low (id, name) values (2, 'c')")
    partitioned.execute("update high_1 set name = 'B'")
    partitioned.execute("delete from high")
    partitioned.execute("truncate account")

    assert changes(partitioned) == [
        ("c", None, {"id": 1, "name": "a"}),
        ("c", None, {"id": 100, "name": "b"}),
        ("c", None, {"id": 2, "name": "c"}),
        ("u", {"id": 100, "name": "b"}, {"id": 100, "name": "B"}),
        ("d", {"id": 100, "name": "B"}, None),
        ("t", None, None),
    ]
    assert rows(partitioned, "select distinct ev_extra1 from pgq.event_1") == [("public.account",)]


def test_a_row_that_moves_to_another_partition_stays_one_row(partitioned):
    partitioned.execute("insert into account values (1, 'a'), (2, 'b'), (3, 'c')")
    partitioned.execute("update account set id = id + 200 where id <> 2")

    assert changes(partitioned)[3:] == [
        ("u", {"id": 1, "name": "a"}, {"id": 201, "name": "a"}),
        ("u", {"id": 3, "name": "c"}, {"id": 203, "name": "c"}),
    ]


def test_a_row_that_gets_lost_between_partitions_is_deleted(partitioned):
    partitioned.execute(
        """create function refuse() returns trigger language plpgsql as $$
        begin if new.id = 201 then return null; end if; return new; end $$;
        create trigger refuse before insert on high_1 for each row execute function refuse()"""
    )
    partitioned.execute("insert into account values (1, 'a'), (2, 'b')")
    partitioned.execute("update account set id = id + 200")

    assert rows(partitioned, "select * from account") == [(202, "b")]
    assert changes(partitioned)[2:] == [
        ("d", {"id": 1, "name": "a"}, None),
        ("d", {"id": 2, "name": "b"}, None),
        ("c", None, {"id": 202, "name": "b"}),
    ]


def test_a_new_partition_is_covered_by_calling_capture_again(partitioned):
    partitioned.execute("create table top partition of account for values from (1000) to (2000)")
    partitioned.execute("insert into account values (1000, 'a')")
    partitioned.execute("insert into top values (1001, 'not seen')")
    partitioned.execute("select sluice.capture('account', 'changes')")
    partitioned.execute("insert into top values (1002, 'b')")

    # Its rows are appended, as it is not known which of them were captured.
    assert [(op, after["id"]) for op, _, after in changes(partitioned)] == [
        ("c", 1000),
        ("r", 1000),
        ("r", 1001),
        ("c", 1002),
    ]


def test_a_closed_log_stops_the_writer(connection, captured):
    connection.execute("update pgq.queue set queue_disable_insert = true")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("insert into account values (1, 'a')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "Insert into queue disallowed",
    )


def test_a_statement_writes_its_events_in_the_order_in_which_keys_came_free(connection, captured):
    connection.execute("insert into account values (3, 'c'), (2, 'b'), (1, 'a')")
    connection.execute("update account set id = id + 1")
    connection.execute("delete from account where id = 4")
    connection.execute(
        """merge into account using (values ('b', 0), ('new', 1)) as s (name, n) on account.name = s.name
        when matched then delete when not matched then insert values (3, s.name)"""
    )

    copy_of(connection, "account")
    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "account") == ["(2,a)", "(3,new)"]


def test_no_code_of_the_tables_owner_runs_with_the_rights_of_the_logs_owner(
    connection, role, server
):
    """row_to_json would run a cast to JSON that the owner has created."""
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(f"grant all on schema public to {role}; set role {role}")
    connection.execute(
        """create type mood as enum ('ok'); create type pair as (m mood, n int);
        create function told(mood) returns json language plpgsql as
            $$ begin raise exception 'run as %', current_user; end $$;
        create cast (mood as json) with function told(mood);
        create table account (id mood primary key, m mood[], p pair)"""
    )
    with pytest.raises(psycopg.errors.RaiseException, match="run as"):
        connection.execute("select row_to_json(t) from (select 'ok'::mood) as t")
    connection.execute("reset role")
    connection.execute("select sluice.capture('account', 'changes')")
    connection.execute("insert into account values ('ok', '{ok}', ('ok', 1))")
    connection.execute("select sluice.capture_snapshot('account', 'changes')")

    row = {"id": "ok", "m": "{ok}", "p": "(ok,1)"}
    assert changes(connection) == [("c", None, row), ("r", None, row)]
    connection.execute(f"drop owned by {role} cascade")


def test_truncate_of_a_partition_deletes_its_rows_and_that_of_the_table_is_one_event(partitioned):
    partitioned.execute("insert into account values (1, 'a'), (100, 'b'), (101, 'c')")
    partitioned.execute("truncate low")
    partitioned.execute("truncate high")
    assert changes(partitioned)[3:] == [
        ("d", {"id": 1, "name": "a"}, None),
        ("d", {"id": 100, "name": "b"}, None),
        ("d", {"id": 101, "name": "c"}, None),
    ]

    with partitioned.transaction():
        partitioned.execute("insert into account values (1, 'a'), (100, 'b')")
        partitioned.execute("truncate account")
        partitioned.execute("insert into low (id) values (2)")
        partitioned.execute("truncate low")
    assert [op for op, *_ in changes(partitioned)[6:]] == ["c", "c", "t", "c", "d"]


def test_truncate_of_a_partition_that_cannot_see_all_rows_is_refused(partitioned):
    partitioned.execute("insert into account values (1, 'a')")
    partitioned.execute("set default_transaction_isolation to 'repeatable read'")
    with pytest.raises(psycopg.Error) as caught:
        partitioned.execute("truncate low")

    assert caught.value.sqlstate == "PQ004"
    assert rows(partitioned, "select * from account") == [(1, "a")]


def test_truncate_of_a_partition_needs_no_rights_of_the_writer_on_its_rows(partitioned, role):
    partitioned.execute("insert into account values (1, 'a')")
    partitioned.execute(f"grant truncate on low to {role}")
    with partitioned.transaction():
        partitioned.execute(f"set local role {role}")
        partitioned.execute("truncate low")
    partitioned.execute(f"revoke truncate on low from {role}")

    assert changes(partitioned)[1:] == [("d", {"id": 1, "name": "a"}, None)]


def test_detached_partition_stays_captured_as_part_of_its_former_table(partitioned):
    partitioned.execute("insert into account values (1, 'a'), (2, 'b')")
    partitioned.execute("alter table account detach partition low")
    partitioned.execute("delete from low where id = 1")
    partitioned.execute("alter table account attach partition low for values from (0) to (100)")
    partitioned.execute("select * from sluice.maintain()")

    assert changes(partitioned)[2:] == [("d", {"id": 1, "name": "a"}, None)]
    assert rows(partitioned, "select distinct ev_extra1 from pgq.event_1") == [("public.account",)]
    partitioned.execute("alter table account detach partition low")
    assert value(partitioned, "select sluice.drop_capture('low', 'changes')")
    partitioned.execute("truncate low")
    assert len(changes(partitioned)) == 3
