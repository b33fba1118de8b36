"""sluice.filter_queries: Spark's filters as conditions of queries."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

ROWS = [
    (1, "a'b", "2026-01-01T00:00:00+00"),
    (2, "{x,y}", "2026-01-02T00:00:00+00"),
    (3, "back\\slash %1$s", "2026-01-03T00:00:00+00"),
    (4, "", None),
    (5, None, "2026-01-05T00:00:00+00"),
]


def matching(connection: psycopg.Connection, *conditions: dict[str, Any]) -> list[int]:
    connection.execute('create temporary table t (id bigint, "Te\'xt" text, at timestamptz)')
    with connection.cursor() as cursor:
        cursor.executemany("insert into t values (%s, %s, %s)", ROWS)
    queries = connection.execute(
        "select query from sluice.filter_queries(%s, %s) order by slice",
        (
            [
                "select * from t where id < 3",
                "select * from t where id >= 3 union all select 9, '', null",
            ],
            json.dumps(conditions),
        ),
    ).fetchall()
    assert len(queries) == 2
    return [row[0] for (query,) in queries for row in connection.execute(query.encode())]


@pytest.mark.parametrize(
    ("column", "test", "value", "expected"),
    [
        ("id", "=", "2", [2]),
        ("id", "<>", "2", [1, 3, 4, 5, 9]),
        ("id", "<", "2", [1]),
        ("id", "<=", "2", [1, 2]),
        ("id", ">", "4", [5, 9]),
        ("id", ">=", "4", [4, 5, 9]),
        ("id", "in", ["1", "9"], [1, 9]),
        ("id", "not in", ["1", "9"], [2, 3, 4, 5]),
        ("at", ">=", "2026-01-03T02:00:00+02:00", [3, 5]),
        ("at", "is null", None, [4, 9]),
        ("at", "is not null", None, [1, 2, 3, 5]),
        ("Te'xt", "=", "a'b", [1]),
        ("Te'xt", "in", ["{x,y}", 'quo"te', "", "NULL"], [2, 4, 9]),
        ("Te'xt", "not in", ["{x,y}", ""], [1, 3]),
        ("Te'xt", "starts with", "back\\", [3]),
        ("Te'xt", "contains", "% %1$s"[2:], [3]),
    ],
)
def test_rows_that_meet_a_condition_are_left(
    connection: psycopg.Connection, column: str, test: str, value: Any, expected: list[int]
):
    condition = {"column": column, "test": test, "value": value}

    assert matching(connection, condition) == expected


def test_all_conditions_are_met(connection: psycopg.Connection):
    above = {"column": "id", "test": ">", "value": "1"}
    below = {"column": "id", "test": "<", "value": "4"}

    assert matching(connection, above, below) == [2, 3]


def test_without_conditions_queries_stay_as_they_are(connection: psycopg.Connection):
    assert matching(connection) == [1, 2, 3, 4, 5, 9]


def test_another_test_is_refused(connection: psycopg.Connection):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="'~' is no test of a column"):
        matching(connection, {"column": "id", "test": "~", "value": ".*"})


def test_a_condition_on_an_id_is_one_of_its_index(connection: psycopg.Connection):
    connection.execute("select pgmq.create('q')")
    (query,) = connection.execute(
        "select f.query from sluice.filter_queries(array["
        "'select m.msg_id, m.message::text as message from pgmq.q_q as m where m.msg_id <= 900'], "
        """'[{"column": "msg_id", "test": ">", "value": "890"}]') as f"""
    ).fetchone() or ("",)

    connection.execute("set enable_seqscan to off; set enable_bitmapscan to off")
    plan = "\n".join(line for (line,) in connection.execute(f"explain {query}".encode()))
    assert "Index Cond: ((msg_id <= 900) AND (msg_id > '890'::bigint))" in plan
