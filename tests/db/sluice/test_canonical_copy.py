"""sluice.canonical_copy: rows as canonical text, whatever the session's settings."""

from __future__ import annotations

import psycopg
import pytest

from support import value


def copied(
    connection: psycopg.Connection, columns: str, forms: str, only_where_null: str | None = None
) -> list[str]:
    statement = value(
        connection,
        "select sluice.canonical_copy('t', %s, %s, %s)",
        columns.split(),
        forms.split(),
        only_where_null,
    )
    with connection.cursor() as cursor, cursor.copy(str(statement).encode()) as copy:
        return [bytes(row).decode().removesuffix("\n") for row in copy]


def test_each_form_writes_equal_values_equally(connection: psycopg.Connection):
    connection.execute("set timezone = 'Asia/Tokyo'")
    connection.execute(
        "create table t as select '1970-01-01 09:00:01.5+09'::timestamptz as at, '2000-01-01'::date as day,"
        " 1.500 as n, 0.1::real as f4, -2.5::double precision as f8, '\\x00ff'::bytea as bytes, '10:00'::time as clock,"
        " 'a\tb' as word, '\"x\"'::jsonb as doc, true as yes"
    )

    (line,) = copied(
        connection,
        "at day n f4 f8 bytes clock word word doc doc yes",
        "micros days numeric float4 float8 hex time text json text json text",
    )

    assert line.split("\t") == [
        "1500000",
        "10957",
        "1.5",
        str(0x3DCCCCCD),
        str(0xC004000000000000 - (1 << 64)),
        "00ff",
        "36000000000",
        "a\\tb",
        "a\\tb",
        '"x"',
        "x",
        "true",
    ]


def test_non_finite_numbers_are_words_and_null_is_null(connection: psycopg.Connection):
    connection.execute(
        "create table t as select 'infinity'::timestamptz as at, '-infinity'::date as day, 'NaN'::double precision as f8,"
        " 'NaN'::numeric as n, null::timestamp as nothing, 'null'::jsonb as doc"
    )

    (line,) = copied(
        connection, "at day f8 n nothing doc", "micros days float8 numeric micros json"
    )

    assert line == "infinity\t-infinity\tNaN\tNaN\t\\N\t\\N"


def test_documents_are_copied_without_decoding_their_texts(connection: psycopg.Connection):
    connection.execute(
        """create table t as select '"\\u0000"'::json as a, ' {"a":  "\\ud800"} '::json as b, '"1"'::jsonb as c,"""
        " array['\"\\u0000\"'::json, '1'] as d, 'null'::jsonb as e, ' null'::json as f, null::json as g"
    )

    (line,) = copied(connection, "a b c d e f g", " ".join(["document"] * 7))

    assert line.replace("\\\\", "\\").split("\t") == [
        '"\\u0000"',
        '{"a":  "\\ud800"}',
        '"1"',
        '["\\u0000",1]',
        *["\\N"] * 3,
    ]


def test_negative_zero_is_zero(connection: psycopg.Connection):
    connection.execute("create table t as select '-0'::real as f4, '-0'::double precision as f8")

    assert copied(connection, "f4 f8 f4", "float4 float8 float8") == ["0\t0\t0"]


def test_infinite_times_are_bounded_on_request(connection: psycopg.Connection):
    connection.execute("set timezone = 'Asia/Tokyo'")
    connection.execute(
        "create table t as select a::timestamptz as at, b::date as day from (values"
        " ('infinity', 'infinity'), ('-infinity', '-infinity'), ('1970-01-01 09:00:01+09', '1970-01-02')) as v (a, b)"
    )

    assert copied(connection, "at day", "micros_bounded days_bounded") == [
        "253402300799999999\t2932896",
        "-62135596800000000\t-719162",
        "1000000\t1",
    ]


def test_a_real_is_a_double_of_the_same_digits(connection: psycopg.Connection):
    connection.execute("create table t as select 0.1::real as small, 0.1::double precision as big")

    (line,) = copied(connection, "small big", "float8 float8")

    assert line.split("\t")[0] == line.split("\t")[1]


def test_only_rows_in_which_a_column_is_null_are_written(connection: psycopg.Connection):
    connection.execute('create table t (n int, "Owner" int)')
    connection.execute("insert into t values (1, null), (2, 5), (3, null)")

    assert copied(connection, "n", "text", "Owner") == ["1", "3"]


@pytest.mark.parametrize(
    ("columns", "forms", "message"),
    [
        ("{a}", "{hexadecimal}", "no values are written in the form 'hexadecimal'"),
        ("{a}", "{null}", "no values are written in the form 'null'"),
        ("{a,b}", "{text}", "columns and their forms are not given in pairs"),
        (None, "{text}", "columns and their forms are not given in pairs"),
    ],
)
def test_other_forms_are_refused(
    connection: psycopg.Connection, columns: str | None, forms: str, message: str
):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=message):
        connection.execute("select sluice.canonical_copy('pg_class', %s, %s)", (columns, forms))
