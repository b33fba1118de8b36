"""Values that an update leaves unchanged: in the event once if they are large, by sluice._update_sql."""

import hashlib
import json
from itertools import count

import psycopg
import pytest

from support import rows, value
from support.capture import apply, contents, copy_of, logged, snapshot

LARGE = 100_000
TYPES = {
    "bytea": "decode(string_agg(md5(n::text), ''), 'hex')",
    "text": "string_agg(md5(n::text), '')",
    "json": "json_agg(md5(n::text))",
    "jsonb": "jsonb_agg(n * 0.10)",
    "text[]": "array_agg(md5(n::text))",
    "part": "row(1, string_agg(md5(n::text), ''))::part",
}


_NUMBERS = count()


def incompressible(size):
    """Return bytes that PostgreSQL cannot compress, other ones at each call."""
    return hashlib.shake_256(str(next(_NUMBERS)).encode()).digest(size)


@pytest.fixture
def big(connection):
    connection.execute("create table big (id int primary key, n int, b bytea, c text)")
    connection.execute("select pgq.create_queue('changes')")
    return connection


def capture(connection, options="{}"):
    connection.execute("select sluice.capture('big', 'changes', %s::jsonb)", (options,))


def updates(connection):
    """Return the events of updates, whose image before is `after || before`, as the guide says."""
    events = [json.loads(data) for op, data in logged(connection) if op == "u"]
    for event in events:
        assert event.get("unchanged", []) == [n for n in event["after"] if n not in event["before"]]
    return events


@pytest.mark.parametrize("size", [LARGE, pytest.param(30_000_000, marks=pytest.mark.slow)])
def test_large_value_is_once_in_the_event_of_an_update_of_another_column(big, size):
    capture(big)
    big.execute("insert into big values (1, 1, %s, 'c')", (incompressible(size),))

    big.execute("update big set n = n + 1")

    inserted, updated = (len(data) for _, data in logged(big))
    assert updated < inserted + 200
    (event,) = updates(big)
    assert event["unchanged"] == ["b"]
    assert event["before"] == {"id": 1, "n": 1, "c": "c"}
    assert {**event["after"], **event["before"]} == json.loads(logged(big)[0][1])["after"]


@pytest.mark.parametrize("options", ["{}", '{"columns": ["id", "n", "b", "c"]}'])
@pytest.mark.parametrize(
    ("change", "unchanged"),
    [
        ("b = b", ["b"]),
        ("b = b || ''", ["b"]),
        ("b = b || 'x', n = 2", []),
        ("b = null, n = 2", []),
        ("b = set_byte(b, 7, 255 - get_byte(b, 7)), n = 2", []),
        ("id = 7", ["b"]),
    ],
)
def test_only_a_value_with_the_same_bytes_is_unchanged(big, options, change, unchanged):
    capture(big, options)
    big.execute(
        "insert into big values (1, 1, %s, 'c'), (2, 1, 'b', 'c')", (incompressible(LARGE),)
    )
    before = json.loads(logged(big)[0][1])["after"]

    big.execute(f"update big set {change} where id = 1")

    # Without a change of the captured columns there is no event.
    is_same = options != "{}" and change.startswith("b = b") and "x" not in change
    assert [event["unchanged"] for event in updates(big)] == [] if is_same else [unchanged]
    assert [{**e["after"], **e["before"]} for e in updates(big)] == [] if is_same else [before]


def test_a_value_up_to_32_kb_is_in_both_images(big):
    capture(big)
    big.execute("insert into big values (1, 1, %s, null)", (incompressible(32_000),))
    big.execute(
        "insert into big values (2, 1, %s, %s)", (incompressible(32_764), incompressible(9).hex())
    )

    big.execute("update big set n = 2 where id = 1")
    big.execute("update big set n = 2 where id = 2")

    first, second = updates(big)
    assert "unchanged" not in first
    assert second["unchanged"] == []
    assert first["before"]["b"] == first["after"]["b"]


def test_each_row_of_a_statement_has_its_own_unchanged_values(big):
    capture(big)
    big.execute("insert into big select n, n, %s, %s from generate_series(1, 3) as n",
                (incompressible(LARGE), incompressible(LARGE).hex()))  # fmt: skip
    big.execute("insert into big values (4, 4, 'b', null)")
    big.execute("select sluice.capture_snapshot('big', 'changes')")
    copy_of(big, "big")

    big.execute(
        "update big set n = n + 1, id = id + 10, c = case id when 2 then c || '.' else c end"
    )

    assert [event["unchanged"] for event in updates(big)] == [["b", "c"], ["b"], ["b", "c"], []]
    apply(big, logged(big))
    assert contents(big, "copy") == contents(big, "big")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("key", ["primary key", ""], ids=["key", "no key"])
def test_values_of_all_types_are_found_unchanged(connection, kind, key):
    connection.execute("create type part as (a int, b text)")
    connection.execute(f"create table big (id int {key}, n int, v {kind})")
    connection.execute(
        f"insert into big select 1, 1, {TYPES[kind]} from generate_series(1, 20000) as n"
    )
    connection.execute("select pgq.create_queue('changes')")
    capture(connection)

    connection.execute("update big set n = 2")
    connection.execute("update big set v = null")

    first, second = updates(connection)
    assert first["unchanged"] == ["v"]
    assert second["before"]["v"] == first["after"]["v"]
    original = rows(connection, "select ev_data::json -> 'after' ->> 'n' from pgq.event_1")
    assert original == [("2",), ("2",)]


def test_row_before_is_rebuilt_by_json_populate_record(big):
    capture(big)
    big.execute("insert into big values (1, 1, %s, null)", (incompressible(LARGE),))
    before = value(big, "select (big.*)::text from big")

    big.execute("update big set n = 2, c = 'c'")

    rebuilt = value(
        big,
        """select json_populate_record(
                      json_populate_record(null::big, ev_data::json -> 'after'), ev_data::json -> 'before'
                  )::text
           from pgq.event_1 where ev_type = 'u'""",
    )
    assert rebuilt == before


@pytest.mark.parametrize("change", ["n = 2", "id = 7"])
def test_without_the_row_before_nothing_is_unchanged(big, change):
    capture(big, '{"before": false}')
    big.execute("insert into big values (1, 1, %s, 'c')", (incompressible(LARGE),))

    big.execute(f"update big set {change}")

    event = json.loads(logged(big)[-1][1])
    assert event["before"] == ({"id": 1} if change.startswith("id") else None)
    assert "unchanged" not in event


def test_an_update_of_an_ignored_column_has_no_event_beside_a_large_value(big):
    capture(big, '{"ignore": ["n"]}')
    big.execute("insert into big values (1, 1, %s, 'c'), (2, 1, %s, 'c')",
                (incompressible(LARGE), incompressible(LARGE)))  # fmt: skip

    big.execute("update big set n = 2, c = case id when 1 then 'd' else c end")

    (event,) = updates(big)
    assert event["before"] == {"id": 1, "c": "c"}


def test_a_row_that_moves_to_another_partition(connection):
    connection.execute(
        "create table big (id int primary key, n int, b text) partition by range (id)"
    )
    connection.execute("create table low partition of big for values from (1) to (10)")
    connection.execute("create table high partition of big for values from (10) to (20)")
    connection.execute("select pgq.create_queue('changes')")
    capture(connection)
    copy_of(connection, "big")
    connection.execute("insert into big values (1, 1, %s)", (incompressible(LARGE).hex(),))

    connection.execute("update big set n = 2")
    connection.execute("update big set id = 11")

    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "big")


@pytest.mark.parametrize("columns", ["position", "names, o", "sizes, s"])
def test_columns_with_names_of_the_trigger(connection, columns):
    names = columns.split(", ")
    connection.execute(
        f"create table big (id int primary key, {', '.join(f'{n} text' for n in names)}, r int, c int)"
    )
    connection.execute("select pgq.create_queue('changes')")
    capture(connection)
    places = ", ".join(["%s"] * len(names))
    texts = [incompressible(LARGE).hex() for _ in names]
    connection.execute(f"insert into big values (1, {places}, 1, 1)", texts)

    connection.execute("update big set r = 2")

    (event,) = updates(connection)
    assert event["unchanged"] == names


# The events of triggers are told by their images: see sluice._events_in_front.
@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize("timing", ["before", "after"])
def test_order_of_nested_events_with_large_values(connection, size, timing):
    connection.execute("create table big (id int primary key, n int, b text)")
    connection.execute("select pgq.create_queue('changes')")
    capture(connection)
    copy_of(connection, "big")
    connection.execute(
        """create function leave() returns trigger language plpgsql as $$
           begin
               if pg_trigger_depth() = 1 and tg_when = upper(tg_argv[0]) and old.id <> new.id then
                   update big set id = id + 100 where id = new.id;
               end if;
               return new;
           end $$"""
    )
    for when in ("before", "after"):
        connection.execute(
            f"create trigger leave_{when} {when} update on big for each row execute function leave('{timing}')"
        )
    connection.execute("insert into big values (1, 1, %s)", (incompressible(size).hex(),))
    if timing == "before":
        connection.execute("insert into big values (2, 2, %s)", (incompressible(size).hex(),))

    connection.execute("update big set id = 2 where id = 1")

    assert sum(op == "u" for op, _ in logged(connection)) == 2
    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "big")


def test_a_table_with_the_most_columns(connection):
    names = [f"c{n}" for n in range(1599)]
    connection.execute(
        f"create table big (id int primary key, {', '.join(f'{n} bool' for n in names)})"
    )
    connection.execute("select pgq.create_queue('changes')")
    capture(connection, """{"operations": ["update"]}""")
    connection.execute("insert into big (id) values (1), (2)")

    connection.execute("update big set c7 = true")

    assert [event["after"]["c7"] for event in updates(connection)] == [True, True]


def test_a_snapshot_after_an_update_has_the_value(big: psycopg.Connection):
    big.execute("insert into big values (1, 1, %s, 'c')", (incompressible(LARGE),))
    capture(big)
    big.execute("update big set n = 2")
    snapshot(big, "big")

    updated, read = (json.loads(data) for _, data in logged(big))
    assert read["after"] == updated["after"]
