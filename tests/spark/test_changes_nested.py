"""Arrays and structs in current-state tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from pgsluice.errors import ChangeError, ConfigurationError
from pgsluice.lake.nested import from_json, to_json
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.verify import verify_current
from pgsluice.verify.lines import lines_of, with_nested
from spark.conftest import LOG
from spark.test_changes import Place, place

__all__ = ["place"]

INTEGERS = pa.list_(pa.int64())
PERSON = pa.struct({"name": pa.string(), "born": pa.date32(), "tags": pa.list_(pa.string())})


@pytest.mark.parametrize(
    ("kind", "documents", "values"),
    [
        (INTEGERS, ["[1, null, -3]", "[]", None, "null"], [[1, None, -3], [], None, None]),
        (pa.list_(INTEGERS), ["[[1],[2,3]]"], [[[1], [2, 3]]]),
        (pa.list_(pa.decimal128(8, 2)), ["[1.25, 3]"], [[Decimal("1.25"), Decimal("3.00")]]),
        (pa.list_(pa.date32()), ['["2026-01-02"]'], [[date(2026, 1, 2)]]),
        (
            pa.list_(pa.timestamp("us", "UTC")),
            ['["2026-01-02T03:04:05.000006+00:00"]'],
            [[datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)]],
        ),
        (
            PERSON,
            [
                '{"name": "Ann\\n\\"A\\"", "born": "1990-01-31", "tags": ["x"], "unknown": {"a": 1}}',
                "{}",
            ],
            [
                {"name": 'Ann\n"A"', "born": date(1990, 1, 31), "tags": ["x"]},
                {"name": None, "born": None, "tags": None},
            ],
        ),
        (pa.struct({"a": pa.int64()}), ['{\n  "a": 1\n}'], [{"a": 1}]),
        (INTEGERS, [], []),
        (pa.large_list(pa.large_string()), ['["a", null]', None], [["a", None], None]),
    ],
)
def test_json_documents_become_values_of_a_nested_type(kind, documents, values):
    assert from_json(documents, kind).to_pylist() == values
    assert from_json(documents, kind).type == kind


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (INTEGERS, '["1"]'),
        (INTEGERS, "[1.5]"),
        (INTEGERS, "{}"),
        (INTEGERS, "[1"),
        (INTEGERS, "{1,2}"),
        (INTEGERS, '[1]}\n{"v": [2]'),
        (pa.list_(pa.date32()), '["infinity"]'),
        (PERSON, "1"),
        (PERSON, '"text"'),
    ],
)
def test_documents_of_another_type_are_refused(kind, document):
    with pytest.raises(ValueError, match=r"."):
        from_json(["null", document], kind)


def test_verify_compares_nested_values_not_their_json():
    rows = [b'1\t{"tags": ["b"],  "name": "x\\\\ty", "more": 1}', b"2\t\\N", b'3\t{"name": 1}']

    normal = list(with_nested(iter(rows), {1: PERSON}))

    lake = pa.RecordBatch.from_pydict(
        {"id": [1, 2], "p": pa.array([{"name": "x\ty", "born": None, "tags": ["b"]}, None], PERSON)}
    )
    assert normal[:2] == lines_of(lake, ["id", "p"], ["text", "json"])
    assert normal[2] == rows[2]
    assert to_json(pa.array([{"name": "x"}], PERSON)) != to_json(pa.array([{"name": "y"}], PERSON))


def test_a_key_of_arrays_is_refused(tmp_path: Path):
    with pytest.raises(ChangeError, match=r"public.item.ids is part of the key"):
        CurrentTable.create(tables_in(tmp_path), "public.item", ("ids",), {"ids": INTEGERS})


@pytest.mark.slow
def test_arrays_and_json_are_stored_as_the_types_given(place: Place, log: psycopg.Connection):
    log.execute(
        "create table item (id int primary key, tags text[], grid int[], at timestamptz[], attributes jsonb, plain int[])"
    )
    log.execute("select sluice.capture('item', %s)", (LOG,))
    log.execute(
        """insert into item values
        (1, '{a,"b c",null}', '{{1,2},{3,4}}', '{2026-01-02 03:04:05+01}', '{"size": 3, "color": "red"}', '{1}'),
        (2, '{}', null, '{}', '{"size": null, "more": [1]}', null),
        (3, null, null, null, null, '{2,3}')"""
    )
    types = {
        "public.item.tags": "array<string>",
        "public.item.grid": "array<array<int>>",
        "public.item.at": "array<timestamp>",
        "public.item.attributes": "struct<size: bigint, color: string>",
    }

    place.run(column_types=types)
    log.execute("update item set tags = tags || '{new}', attributes = '{\"size\": 4}' where id < 3")
    log.execute("delete from item where id = 3")
    place.run(column_types=types)

    hour = datetime(2026, 1, 2, 2, 4, 5)  # noqa: DTZ001 - in UTC, as Spark returns it
    assert place.rows("public.item") == [
        (1, ["a", "b c", None, "new"], [[1, 2], [3, 4]], [hour], (4, None), "[1]"),
        (2, ["new"], None, [], (4, None), None),
    ]
    table = place.at("public.item")
    assert verify_current("item", table, dsn=place.dsn).equal
    log.execute("update item set attributes = '{\"size\": 5}' where id = 2")
    report = verify_current("item", table, dsn=place.dsn)
    assert report.counts["changed"] == 1
    (changed,) = report.differences
    assert changed.postgresql == {"attributes": '{"color": null, "size": 5}'}

    # The types are kept without the option; a document of another type parks the table.
    assert place.run().progress().parked == ()
    assert place.rows("public.item")[1][4] == (5, None)
    log.execute("update item set attributes = '[1]' where id = 2")
    assert place.run().progress().parked == ("public.item",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("arrray<int>", r"invalid type 'arrray<int>' of column public.item.tags"),
        ("int", r"column public.item.tags cannot be stored as int; use string, array"),
        ("map<string, int>", r"cannot be stored as map"),
    ],
)
@pytest.mark.usefixtures("log")
def test_an_unsupported_column_type_is_refused(place: Place, kind: str, message: str):
    with pytest.raises(ConfigurationError, match=message):
        place.run(column_types={"public.item.tags": kind})
