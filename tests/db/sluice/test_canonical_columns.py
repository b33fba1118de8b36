"""sluice.canonical_columns: the stored columns of a table, their types and its key."""

from __future__ import annotations

import psycopg

from support import rows


def test_columns_come_in_order_with_their_plain_types_and_their_place_in_the_key(
    connection: psycopg.Connection,
):
    connection.execute("create type mood as enum ('glad')")
    connection.execute("create domain price as numeric(10, 2)")
    connection.execute("create domain low_price as price check (value < 10)")
    connection.execute(
        "create table t (a varchar(10), gone int, b low_price, c timestamptz(3), d int[], m mood,"
        " e int generated always as (1) stored, primary key (c, a) include (d))"
    )
    connection.execute("alter table t drop column gone")
    connection.execute("create unique index on t (b)")

    assert rows(connection, "select * from sluice.canonical_columns('t')") == [
        ("a", "character varying", 2, True),
        ("b", "numeric", None, True),
        ("c", "timestamp with time zone", 1, True),
        ("d", "integer[]", None, True),
        ("m", "public.mood", None, False),
        ("e", "integer", None, True),
    ]


def test_without_a_key_no_column_has_a_place_in_it(connection: psycopg.Connection):
    connection.execute("create table t (a int unique)")

    assert rows(connection, "select * from sluice.canonical_columns('t')") == [
        ("a", "integer", None, True)
    ]
