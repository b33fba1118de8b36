"""sluice.capture_snapshot, with _capture_walk (the order), _snapshot_sql and _append_rows."""

import json

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support import rows, value
from support.capture import apply, contents, copy_of, logged, snapshot


def call(connection, table, after_key=None, qty=1000):
    return value(
        connection,
        "select sluice.capture_snapshot(%s::regclass, 'changes', %s, %s)",
        table, None if after_key is None else Jsonb(after_key), qty,
    )  # fmt: skip


@pytest.fixture
def filled(connection, captured):
    """A captured table with five rows older than the capture."""
    connection.execute("alter table account disable trigger user")
    connection.execute("insert into account select n, 'old' from generate_series(1, 5) as n")
    connection.execute("alter table account enable trigger user")
    return connection


def test_chunks_in_the_order_of_the_key_until_there_are_no_more(filled):
    assert call(filled, "account", qty=2) == {"id": "2"}
    assert call(filled, "account", {"id": "2"}, qty=2) == {"id": "4"}
    assert call(filled, "account", {"id": "4"}, qty=2) == {"id": "5"}
    assert call(filled, "account", {"id": "5"}, qty=2) is None

    assert [(op, json.loads(data)["after"]["id"]) for op, data in logged(filled)] == [
        ("r", 1), ("r", 2), ("r", 3), ("r", 4), ("r", 5),
    ]  # fmt: skip


def test_an_event_is_as_those_of_changes_are(filled):
    call(filled, "account", qty=1)

    ((data, extra1),) = rows(filled, "select ev_data, ev_extra1 from pgq.event_1")
    envelope = json.loads(data)
    assert list(envelope) == ["op", "before", "after", "source", "ts_ms"]
    assert (envelope["op"], envelope["before"]) == ("r", None)
    assert envelope["after"] == {"id": 1, "name": "old"}
    assert list(envelope["source"]) == ["schema", "table", "key", "txId"]
    assert extra1 == "public.account"


def test_options_of_the_capture_hold_for_it(filled):
    filled.execute("""select sluice.capture('account', 'changes', '{"ignore": ["name"]}')""")
    call(filled, "account", qty=1)

    assert [json.loads(data)["after"] for _, data in logged(filled)] == [{"id": 1}]


def test_nothing_is_there(connection, captured):
    assert call(connection, "account") is None
    assert logged(connection) == []


KEYS = {
    "numeric": ["-1.50", "0.10000000000000000000000000001", "9007199254740993", "Infinity", "NaN"],
    "double precision": ["-Infinity", "0.1", "0.30000000000000004", "NaN"],
    "timestamptz": ["-infinity", "2026-11-21 01:02:03.000001+00", "infinity"],
    "text": ["", "'", "a", "\\", "é"],
    "varchar(3)": ["", "abc"],
    "char(3)": ["a", "b"],
    "bytea": ["\\x", "\\x00ff"],
    "uuid": ["00000000-0000-0000-0000-000000000001", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
    "interval": ["-1 mon", "1 day", "1 mon"],
    "integer[]": ["{}", "{1,2}", "{1,3}"],
    "inet": ["10.0.0.1", "::1"],
    "daterange": ["empty", "[2026-01-01,2026-02-01)"],
    "jsonb": ["[]", "1", '"x"'],
    "boolean": ["false", "true"],
    "bit(3)": ["001", "100"],
    '"char"': ["a", "b"],
    "mood": ["sad", "happy"],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type_is_a_place_to_go_on_from(connection, kind):
    connection.execute("create type mood as enum ('sad', 'happy')")
    connection.execute(f'create table odd ("Key" {kind} primary key)')
    for text in KEYS[kind]:
        connection.execute(f"insert into odd values (%s::text::{kind})", [text])
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('odd', 'changes')")
    connection.execute("set timezone = 'Asia/Tokyo'; set datestyle = 'German'")

    assert snapshot(connection, "odd", qty=1) == len(KEYS[kind]) + 1

    connection.execute("reset timezone; reset datestyle")
    copy_of(connection, "odd")
    apply(connection, logged(connection), key='"Key"')
    assert contents(connection, "copy") == contents(connection, "odd")


def test_a_key_of_several_columns(connection):
    connection.execute(
        "create table odd (b text, a int, n int, primary key (a, b)); select pgq.create_queue('changes')"
    )
    connection.execute(
        "insert into odd select chr(96 + b), a, 1 from generate_series(1, 5) as a, generate_series(1, 3) as b"
    )
    connection.execute("select sluice.capture('odd', 'changes')")

    assert call(connection, "odd", qty=4) == {"a": "2", "b": "a"}
    assert snapshot(connection, "odd", qty=4) == 5
    copy_of(connection, "odd")
    apply(connection, logged(connection), key="a, b")
    assert contents(connection, "copy") == contents(connection, "odd")


def test_a_partitioned_table(connection):
    connection.execute(
        """create table whole (id int primary key) partition by range (id);
        create table low partition of whole for values from (0) to (5);
        create table high partition of whole default;
        insert into whole select generate_series(0, 9); select pgq.create_queue('changes')"""
    )
    connection.execute("select sluice.capture('whole', 'changes')")

    assert snapshot(connection, "whole", qty=4) == 4
    assert [json.loads(data)["after"]["id"] for _, data in logged(connection)] == list(range(10))


@pytest.mark.parametrize("key", ["", "primary key"], ids=["no key", "a key of an own type"])
def test_a_table_without_a_key_to_walk_by_is_taken_whole(connection, key):
    connection.execute("create type pair as (a int, b int)")
    connection.execute(f"create table odd (id int, p pair {key})")
    connection.execute(
        "insert into odd select n, row(n, n)::pair from generate_series(1, 2500) as n"
    )
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('odd', 'changes')")

    assert call(connection, "odd", qty=10) is None
    assert [json.loads(data)["after"]["id"] for _, data in logged(connection)] == list(
        range(1, 2501)
    )
    with pytest.raises(psycopg.Error) as caught:
        call(connection, "odd", {"id": "1"})
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "22023",
        "public.odd has no key to go on from",
    )


def test_the_work_of_a_call_does_not_grow_with_what_is_behind_it(connection, captured, buffers):
    connection.execute("insert into account select n, 'old' from generate_series(1, 20000) as n")
    connection.execute("vacuum analyze account")
    query = "select sluice.capture_snapshot('account', 'changes', '{{\"id\": \"{}\"}}', 10)"

    assert buffers(query.format(19900)) < 600


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("'account', 'changes', null, 0", "22023", "qty is 0"),
        ("'account', 'changes', null, null", "22023", "qty is null"),
        ("'account', 'changes', '{\"no\": \"1\"}'", "22023", 'after_key is {"no": "1"}'),
        ("'account', 'changes', '{\"id\": null}'", "22023", 'after_key is {"id": null}'),
        ("'account', 'changes', '1'", "22023", "after_key is 1"),
        ("'account', 'changes', '{\"id\": \"x\"}'", "22P02", 'invalid input syntax for type integer: "x"'),
        ("'account', 'other'", "PQ007", "public.account is not captured into event log 'other'"),
        ("'other', 'changes'", "PQ007", "public.other is not captured into event log 'changes'"),
        ("null, 'changes'", "22004", "table or event log is null"),
        ("'account', null", "22004", "table or event log is null"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(filled, arguments, code, message):
    filled.execute("create table other (id int primary key)")
    with pytest.raises(psycopg.Error) as caught:
        filled.execute(f"select sluice.capture_snapshot({arguments})")

    assert caught.value.sqlstate == code
    assert caught.value.diag.message_primary == message


def test_a_capture_that_is_disabled_is_none(filled):
    filled.execute("alter table account disable trigger sluice_capture_delete_1")

    with pytest.raises(psycopg.Error) as caught:
        call(filled, "account")
    assert caught.value.sqlstate == "PQ007"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_snapshot_of_the_transaction_is_refused(filled, level):
    filled.execute(f"begin isolation level {level}")
    with pytest.raises(psycopg.Error) as caught:
        call(filled, "account")
    filled.execute("rollback")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        f"cannot capture the rows of public.account in a {level} transaction",
    )


def test_rows_that_the_caller_cannot_see_are_not_left_out_silently(filled, role):
    filled.execute("alter table account enable row level security")
    filled.execute(f"grant sluice_admin to {role}; grant select, update on account to {role}")
    filled.execute(f"set role {role}")
    with pytest.raises(psycopg.Error) as caught:
        call(filled, "account")
    filled.execute("reset role")

    assert caught.value.sqlstate == "42501"
    filled.execute("alter table account disable row level security")
    with filled.transaction():
        filled.execute(f"set local role {role}")
        assert call(filled, "account") == {"id": "5"}
    filled.execute(f"revoke sluice_admin from {role}; revoke all on account from {role}")


def test_closed_log_is_reported(filled):
    filled.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(psycopg.Error) as caught:
        call(filled, "account")

    assert caught.value.diag.message_primary == "Insert into queue disallowed"


@pytest.mark.parametrize("key", ["primary key", ""], ids=["key", "no key"])
def test_values_too_large_for_an_event_are_left_out_and_named(connection, key):
    connection.execute(f"create table big (id int {key}, n int, b text, c text)")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("""select sluice.capture('big', 'changes', '{"row_bytes_max": 10000}')""")
    connection.execute("alter table big alter b set storage external, disable trigger user")
    connection.execute(
        "insert into big select n, n, repeat('x', n * 100000), 'c' from generate_series(0, 2) as n"
    )
    connection.execute("alter table big enable trigger user")

    snapshot(connection, "big")

    events = [json.loads(data) for _, data in logged(connection)]
    assert [event["after"] for event in events] == [
        {"id": 0, "n": 0, "b": "", "c": "c"},
        {"id": 1, "n": 1, "b": None, "c": "c"},
        {"id": 2, "n": 2, "b": None, "c": "c"},
    ]
    assert {str(event.get("left_out")) for event in events} == {"{'after': ['b']}"}


def test_rows_of_a_new_partition_lack_values_too_large_for_an_event(connection):
    connection.execute("create table big (id int primary key, b text) partition by range (id)")
    connection.execute("select pgq.create_queue('changes')")
    options = '{"row_bytes_max": 10000}'
    connection.execute("select sluice.capture('big', 'changes', %s::jsonb)", (options,))
    connection.execute("create table part partition of big default")
    connection.execute("insert into part values (1, repeat('x', 2000000))")
    connection.execute("select sluice.capture('big', 'changes', %s::jsonb)", (options,))

    (event,) = [json.loads(data) for op, data in logged(connection) if op == "r"]
    assert event["after"] == {"id": 1, "b": None}
    assert event["left_out"] == {"after": ["b"]}


@pytest.mark.parametrize(("size", "calls"), [(1_000_000, 3), (100, 1)])
def test_a_call_ends_at_16_mb(connection, size, calls):
    connection.execute("create table big (id int primary key, b bytea)")
    connection.execute("alter table big alter b set storage external")
    connection.execute(
        "insert into big select n, convert_to(repeat('x', %s), 'UTF8') from generate_series(1, 50) as n",
        (size,),
    )
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('big', 'changes')")
    copy_of(connection, "big")

    # One more call finds no further row.
    assert snapshot(connection, "big") == calls + 1

    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "big")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rows_whose_text_has_more_than_1_gb_in_all(database_18):
    with database_18.connect() as connection:
        connection.execute("create table big (id int, b text)")
        connection.execute(
            "insert into big select n, repeat('x', 60000000) from generate_series(1, 20) as n"
        )
        connection.execute("select pgq.create_queue('changes')")
        connection.execute("select sluice.capture('big', 'changes')")

        snapshot(connection, "big")

        found = rows(
            connection,
            "select ev_data::json -> 'after' ->> 'id', length(ev_data) > 60000000 from pgq.event_1 order by ev_id",
        )
        assert found == [(str(n), True) for n in range(1, 21)]
