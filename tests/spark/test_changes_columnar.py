"""Changes that Arrow's JSON reader collapses have the same effect as those that are parsed one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsluice.lake.current_tables import CHANGED_AT, DELETED, ROW, SEQ, lake_column
from pgsluice.pipelines.current_state.collapse import Portion, portion_of
from pgsluice.pipelines.current_state.columnar import portion_of_json
from pgsluice.pipelines.current_state.columns import TIMESTAMP, array_of, lake_type
from pgsluice.pipelines.current_state.reading import COLUMNS, SNAPSHOT_EVENT, changes_of
from spark.changing import NAME
from spark.conftest import LOG

KINDS = {
    "id": pa.int64(),
    "code": pa.string(),
    "note": pa.string(),
    "amount": pa.decimal128(12, 2),
    "rate": pa.float64(),
    "ratio": pa.float32(),
    "is_on": pa.bool_(),
    "at": TIMESTAMP,
}
_TYPES = (pa.int64(), pa.timestamp("us", "UTC"), *[pa.string()] * 4)


class Number:
    """A number as PostgreSQL writes it."""

    def __init__(self, text: str) -> None:
        self.text = text


def batch(events: list[tuple[str, str | None]], name: str = str(NAME)) -> pa.RecordBatch:
    """Return events of type and data as `_pieces` receives them."""
    rows = [(seq, seq * 10, kind, data, name, None) for seq, (kind, data) in enumerate(events, 5)]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _TYPES, strict=True)]
    return pa.record_batch(arrays, list(COLUMNS))


def event(
    op: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    key: tuple[str, ...] = ("id",),
    **members: Any,
) -> tuple[str, str]:
    source = {"schema": "public", "table": "account", "key": list(key), "txId": 7}
    envelope = {
        "op": op, "before": before, "after": after, "source": source, "ts_ms": 1, **members
    }  # fmt: skip
    numbers: dict[str, str] = {}

    def placed(value: Any) -> str:
        numbers[f'"number {len(numbers)}"'] = value.text
        return f"number {len(numbers) - 1}"

    text = json.dumps(envelope, default=placed)
    for place, number in numbers.items():
        text = text.replace(place, number, 1)
    return op, text


def contents(portion: Portion, kinds: Mapping[str, pa.DataType]) -> object:
    """Return a portion with the values that the lake receives."""
    columns = {name: portion.rows[name].to_pylist() for name in (SEQ, CHANGED_AT, DELETED, ROW)}
    for name in sorted(portion.columns):
        values = portion.rows[lake_column(name)].to_pylist()
        columns[name] = array_of(values, kinds[name], name).to_pylist()
    rows = sorted(zip(*columns.values(), strict=True), key=repr)
    return portion.key, set(portion.columns), rows, portion.truncated_at


def one_by_one(events: pa.RecordBatch, kinds: Mapping[str, pa.DataType] = KINDS) -> object:
    return contents(portion_of(list(changes_of(NAME, events)), kinds), kinds)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
numbers = st.one_of(
    st.integers(-(2**31), 2**31).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
rows = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "code": st.one_of(st.sampled_from(["a", "b c", "it's", 'say "x"', "ä", "", "\\"]), texts),
        "note": st.none() | texts,
        "amount": st.none()
        | st.decimals(-(10**9), 10**9, places=2).map(lambda d: Number(f"{d:.2f}")),
        "rate": st.none() | numbers.map(Number),
        "ratio": st.none()
        | st.floats(width=32, allow_nan=False, allow_infinity=False).map(
            lambda f: Number(str(Decimal(repr(f))))
        ),
        "is_on": st.none() | st.booleans(),
        "at": st.none() | st.sampled_from(["2026-01-31T12:00:00.5+00:00", "infinity"]),
    }
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    key = draw(st.sampled_from([("id",), ("code",), ("id", "code")]))
    only_key = draw(st.booleans())
    found = []
    for op in draw(st.lists(st.sampled_from("crud"), min_size=1, max_size=8)):
        before = draw(rows) if op in "ud" else None
        if before is not None and only_key:
            before = {name: before[name] for name in key}
        found.append(event(op, before, draw(rows) if op in "cru" else None, key))
    return found, key


@pytest.mark.slow
@settings(max_examples=400)
@given(history=histories())
def test_the_effect_is_that_of_changes_parsed_one_by_one(
    history: tuple[list[tuple[str, str]], tuple[str, ...]],
):
    events = batch(history[0])

    portion = portion_of_json(NAME, events, KINDS)

    assert portion is None or contents(portion, KINDS) == one_by_one(events)


ROW_1: dict[str, Any] = {
    "id": 1,
    "code": "a",
    "note": "ä\n'",
    "amount": Number("1.50"),
    "is_on": True,
}
ROW_2 = {**ROW_1, "id": 2, "amount": None}
KEY_1 = {"id": 1}


@pytest.mark.parametrize(
    "events",
    [
        [event("c", None, ROW_1)],
        [event("r", None, ROW_1), event("r", None, ROW_2)],
        [event("c", None, ROW_1), event("u", ROW_1, ROW_2), event("d", ROW_2, None)],
        [event("d", KEY_1, None), event("c", None, ROW_1)],
        [event("d", KEY_1, None)],
        [event("c", None, ROW_1, ("code", "id")), event("u", ROW_1, ROW_2, ("code", "id"))],
        [event("u", ROW_1, {**ROW_1, "note": None}), (SNAPSHOT_EVENT, '{"state": "ended"}')],
        [
            event("u", KEY_1, ROW_2, unchanged=["note", "code"]),
            event("u", ROW_2, ROW_1, unchanged=[]),
        ],
    ],
)
def test_changes_of_plain_values_are_not_parsed_one_by_one(events: list[tuple[str, str]]):
    found = batch(events)

    portion = portion_of_json(NAME, found, KINDS)

    assert portion is not None
    assert contents(portion, KINDS) == one_by_one(found)


@pytest.mark.parametrize(
    "events",
    [
        [(SNAPSHOT_EVENT, '{"state": "ended"}')],
        [("c", None)],
        [("c", "no JSON")],
        [("c", "[]")],
        [event("c", None, ROW_1), ("order", "an application's event")],
        [event("c", None, ROW_1), ("u", event("c", None, ROW_2)[1])],
        [event("c", None, ROW_1), event("t", None, None)],
        [event("c", None, ROW_1), event("c", None, ROW_2, transaction=1)],
        [event("c", None, ROW_1), event("c", None, ROW_2, left_out={"after": ["note"]})],
        [event("c", None, ROW_1), event("c", None, {**ROW_2, "new": 1})],
        [event("c", None, ROW_1), event("c", None, {**ROW_2, "new": 1}), event("c", None, ROW_1)],
        [event("c", None, {**ROW_1, "note": Number("1")})],
        [event("c", None, {**ROW_1, "note": {"a": 1}})],
        [event("c", None, {**ROW_1, "note": [1]})],
        [event("c", None, {**ROW_1, "id": Number("9223372036854775808")})],
        [event("c", None, {**ROW_1, "amount": Number("1.505")})],
        [event("c", None, {**ROW_1, "is_on": "maybe"})],
        [event("c", None, {**ROW_1, "id": None})],
        [event("c", None, ROW_1, ())],
        [event("c", None, ROW_1, ("gone",))],
        [event("c", None, ROW_1), event("c", None, ROW_2, ("code",))],
        [event("c", None, {**ROW_1, "code": "it's"}, ("code",))],
        [event("u", {}, ROW_1)],
        [("c", event("c", None, ROW_1)[1].replace("{", "{\n", 1))],
        [event("c", None, ROW_1), ("c", event("c", None, ROW_2)[1].replace("public", "other"))],
    ],
)
def test_other_changes_are_parsed_one_by_one(events: list[tuple[str, str | None]]):
    assert portion_of_json(NAME, batch(events), KINDS) is None


def test_no_events_have_no_effect():
    assert portion_of_json(NAME, batch([event("c", None, ROW_1)]).slice(0, 0), KINDS) is None


def test_changes_written_by_the_trigger(log: psycopg.Connection):
    log.execute(
        "create table account (id bigint primary key, code text, amount numeric(12, 2), rate float8, ratio real, "
        "is_on boolean, at timestamptz, day date, raw bytea, uid uuid)"
    )
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute(
        "insert into account select n, 'it''s \\ ' || n, n / 7.0, n / 7.0, n / 7.0, n % 2 = 0, "
        "now() + n * interval '1 day', current_date + n::int, decode('00ff', 'hex'), gen_random_uuid() "
        "from generate_series(1, 50) as n"
    )
    log.execute("update account set amount = 0.01, rate = '1e-300', ratio = null where id % 3 = 0")
    log.execute("update account set id = id + 100 where id % 5 = 0")
    log.execute("delete from account where id % 7 = 0")
    types = log.execute(
        "select attname::text, format_type(atttypid, atttypmod) from pg_attribute "
        "where attrelid = 'account'::regclass and attnum > 0"
    ).fetchall()
    kinds = {name: lake_type(kind) for name, kind in types}
    events = batch(
        log.execute("select ev_type, ev_data from pgq.event_1 order by ev_id").fetchall()
    )

    portion = portion_of_json(NAME, events, kinds)

    assert portion is not None
    assert contents(portion, kinds) == one_by_one(events, kinds)
    assert portion.rows.num_rows == 50 + 10
