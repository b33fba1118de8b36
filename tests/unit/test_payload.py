"""Conversion of payloads to JSON, and the path in errors."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.json_values import DEPTH_MAX
from pgsluice.client.payload_type import payload_type
from pgsluice.errors import PayloadError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20
)

ORDER_ID = UUID(int=7)
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Color(Enum):
    RED = "red"


@dataclass
class Order:
    order_id: UUID
    placed_at: datetime
    tags: list[str] = field(default_factory=list)
    note: Any = None


class Invoice(pydantic.BaseModel):
    total: Decimal
    due: date = pydantic.Field(alias="dueOn")


def stored_text(value):
    parameter = json_parameter(value, "message")
    return parameter.dumps(parameter.obj)


@pytest.mark.slow
@given(VALUES.filter(lambda value: value is not None))
def test_accepted_payload_survives_a_json_round_trip(value):
    assert json.loads(stored_text(value)) == value


def test_none_is_sql_null_and_not_json_null():
    assert json_parameter(None, "message") is None
    assert stored_text([None]) == "[null]"


def test_text_is_sent_as_it_is_and_not_escaped():
    assert stored_text({"ключ": "日本 🐘"}) == '{"ключ":"日本 🐘"}'


def test_subclasses_that_json_knows_are_accepted():
    assert stored_text(OrderedDict(a=(1, 2))) == '{"a":[1,2]}'


@pytest.mark.parametrize(
    "value",
    [
        NOW,
        NOW.date(),
        time(12, 30),
        ORDER_ID,
        Decimal("1.50"),
        Color.RED,
        Order(ORDER_ID, NOW, ["new"]),
        Invoice(total="1.50", dueOn="2030-01-01"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_is_stored_as_a_handler_sends_it(value):
    sent_by_handler = payload_type(type(value)).encode(value)

    assert json.loads(stored_text(value)) == sent_by_handler
    assert json.loads(stored_text({"a": [value]})) == {"a": [sent_by_handler]}


def test_values_are_converted_inside_of_an_untyped_field():
    order = Order(ORDER_ID, NOW, note={"seen": (NOW, Order(ORDER_ID, NOW))})

    seen = json.loads(stored_text(order))["note"]["seen"]

    assert seen == [
        NOW.isoformat(),
        {"order_id": str(ORDER_ID), "placed_at": NOW.isoformat(), "tags": [], "note": None},
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "message is nan, which JSON cannot hold"),
        ({"a": float("inf")}, r"message\['a'\] is inf"),
        ([0, [1, float("-inf")]], r"message\[1\]\[1\] is -inf"),
        ("a\x00b", "message holds a NUL character, which PostgreSQL cannot store; remove it"),
        ({"a\x00": 1}, "a key of message holds a NUL character"),
        ({"outer": [{"in\x00ner": 1}]}, r"a key of message\['outer'\]\[0\] holds a NUL"),
        ("\ud83d", r"message holds a lone surrogate \(U\+D83D\)"),
        ([{"k": "ok\udc00"}], r"message\[0\]\['k'\] holds a lone surrogate \(U\+DC00\)"),
        ({"\udfff": 1}, r"a key of message holds a lone surrogate \(U\+DFFF\)"),
        ({1: "one"}, "message has the key 1; use only strings as keys"),
        ({"a": {None: 1}}, r"message\['a'\] has the key None; use only strings as keys"),
        ({True: 1}, "message has the key True"),
        (b"bytes", "message is of type bytes, which has no JSON form"),
        ({"took": timedelta(1)}, r"message\['took'\] is of type timedelta"),
        (Order(ORDER_ID, NOW, tags="new"), r"message\.tags is of type str; it must be list"),
        ([Order(ORDER_ID, NOW, note=float("nan"))], r"message\[0\]\['note'\] is nan"),
        ({"ids": {1, 2}}, r"message\['ids'\] is of type set"),
        (MappingProxyType({"a": 1}), "message is of type mappingproxy"),
        (10**5000, "message has more than 4000 digits"),
        ([-(10**5000)], r"message\[0\] has more than 4000 digits"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_value_outside_json_or_postgresql_is_refused_with_its_path(value, words):
    with pytest.raises(PayloadError, match=words):
        json_parameter(value, "message")


def test_the_name_that_the_caller_knows_begins_the_path():
    with pytest.raises(PayloadError, match=r"^headers\[3\]\['a'\] is nan"):
        json_parameter({"a": float("nan")}, "headers[3]")


def nested(levels):
    value = 0
    for _ in range(levels):
        value = [value]
    return value


def test_the_deepest_value_that_is_accepted_can_be_encoded_and_decoded():
    assert json.loads(stored_text(nested(DEPTH_MAX))) == nested(DEPTH_MAX)


def test_a_deeper_value_is_refused_with_a_short_message():
    with pytest.raises(PayloadError, match=f"nested deeper than {DEPTH_MAX} levels") as caught:
        json_parameter(nested(DEPTH_MAX + 1), "message")

    assert len(str(caught.value)) < 250


def test_a_value_that_holds_itself_is_refused():
    loop = []
    loop.append(loop)

    with pytest.raises(PayloadError, match="nested deeper"):
        json_parameter(loop, "message")
