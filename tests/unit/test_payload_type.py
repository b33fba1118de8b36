"""Payload types: conversion, rejected values, and the use of Pydantic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NewType, NotRequired, Required, TypedDict
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.payload_type import payload_type
from pgsluice.errors import ArgumentError, PayloadError


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


CustomerId = NewType("CustomerId", int)


@dataclass(frozen=True)
class Line:
    sku: str
    qty: int
    price: Decimal = Decimal(1)


@dataclass
class Order:
    id: CustomerId
    at: datetime
    lines: list[Line] = field(default_factory=list)
    color: Color | None = None
    replaces: Order | None = None
    total: float = 0.0
    kind: Literal["new", "again"] = "new"
    notes: dict[str, tuple[date, ...]] = field(default_factory=dict)


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Person(Address, total=False):
    name: Required[str]
    born: date


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    id: int = pydantic.Field(alias="ID")
    at: datetime


class Wide(pydantic.BaseModel):
    a: int
    b: int
    c: int
    d: int
    e: int
    f: int


@dataclass
class WithModel:
    model: Model
    tags: Annotated[list[str], pydantic.Field(max_length=2)]


@dataclass
class Positive:
    number: int

    def __post_init__(self):
        if self.number <= 0:
            raise ValueError("must be positive")


WHEN = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
ORDER = Order(
    CustomerId(1), WHEN, [Line("a", 2, Decimal("0.10"))], Color.RED,
    Order(CustomerId(0), WHEN), 1.5, "again", {"days": (date(2026, 1, 31),)},
)  # fmt: skip
ROUND_TRIPS = [
    (None, None, None),
    (dict, {"a": [1, None]}, {"a": [1, None]}),
    (list[int], [1, 2], [1, 2]),
    (Sequence[int], [1, 2], [1, 2]),
    (frozenset[str], frozenset({"a"}), ["a"]),
    (Mapping[str, float], {"a": 1.5}, {"a": 1.5}),
    (bool | int | None, True, True),
    (bool | int | None, 1, 1),
    (datetime, WHEN, "2026-03-29T02:30:00+02:00"),
    (time, time(2, 30), "02:30:00"),
    (UUID, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (Level, Level.HIGH, 2),
    (Annotated[int, "of no meaning here"], 1, 1),
    (Order, Order(CustomerId(1), WHEN), {
        "id": 1, "at": "2026-03-29T02:30:00+02:00", "lines": [], "color": None, "replaces": None, "total": 0.0,
        "kind": "new", "notes": {},
    }),
    (Order, ORDER, {
        "id": 1, "at": "2026-03-29T02:30:00+02:00", "lines": [{"sku": "a", "qty": 2, "price": "0.10"}],
        "color": "red", "replaces": {
            "id": 0, "at": "2026-03-29T02:30:00+02:00", "lines": [], "color": None, "replaces": None, "total": 0.0,
            "kind": "new", "notes": {},
        }, "total": 1.5, "kind": "again", "notes": {"days": ["2026-01-31"]},
    }),
    (Person, {"street": "s", "name": "n", "born": date(2000, 2, 29)},
     {"street": "s", "name": "n", "born": "2000-02-29"}),
    (Model, Model(ID=1, at=WHEN), {"ID": 1, "at": "2026-03-29T02:30:00+02:00"}),
    (WithModel, WithModel(Model(ID=1, at=WHEN), ["a"]),
     {"model": {"ID": 1, "at": "2026-03-29T02:30:00+02:00"}, "tags": ["a"]}),
    (Line | Positive, Positive(1), {"number": 1}),  # Pydantic selects the type of the union
    (timedelta, timedelta(seconds=90), "PT1M30S"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "given", "stored"), ROUND_TRIPS)
def test_a_value_becomes_json_that_can_be_stored_and_comes_back_equal(annotation, given, stored):
    kind = payload_type(annotation)

    assert kind.encode(given) == stored
    json_parameter(stored, "message")
    received = kind.decode(json.loads(json.dumps(stored)))
    assert (received, type(received)) == (given, type(given))
    assert kind.decode_text(kind.encode_text(given)) == given


NOT_RECEIVED = [
    (Order, {}, "payload.id is missing"),
    (Order, [], "payload is of type list; it must be Order"),
    (Order, None, "payload is null; it must be Order"),
    (Order, {"id": "1", "at": ""}, "payload.id is of type str; it must be int"),
    (Order, {"id": True, "at": ""}, "payload.id is of type bool; it must be int"),
    (Order, {"id": 1, "at": "yesterday"}, "payload.at is not a valid datetime"),
    (Order, {"id": 1, "at": "2026-01-01", "lines": [{"sku": "a", "qty": 1}, {"sku": 2, "qty": 1}]},
     "payload.lines[1].sku is of type int; it must be str"),
    (Order, {"id": 1, "at": "2026-01-01", "color": "green"}, "payload.color is not one of the values of Color"),
    (Order, {"id": 1, "at": "2026-01-01", "kind": ["new"]}, "payload.kind is of type list; it must be 'new' or 'again'"),
    (Order, {"id": 1, "at": "2026-01-01", "kind": "old"}, "payload.kind is not one of the values of 'new' or 'again'"),
    (Order, {"id": 1, "at": "2026-01-01", "notes": {"a b": ["x"]}}, "payload.notes['a b'][0] is not a valid date"),
    (Order, {"id": 1, "at": "2026-01-01", "total": 10**400}, "payload.total is an integer too large for a float"),
    (Order, {"id": 1, "at": "2026-01-01", "replaces": {"id": 0}}, "payload.replaces.at is missing"),
    (Line, {"sku": "a", "qty": 1, "price": "much"}, "payload.price is not a valid Decimal"),
    (Level, 1.0, "payload is of type float; it must be Level"),
    (Level, True, "payload is not one of the values of Level"),
    (int | str, None, "payload is null; it must be int | str"),
    (int | str, 1.5, "payload is of type float; it must be int | str"),
    (Person, {"street": "s"}, "payload.name is missing"),
    (Person, {"street": "s", "name": "n", "number": "1"}, "payload['number'] is of type str; it must be int"),
    (Positive, {"number": 0}, "payload was rejected by Positive: ValueError: must be positive"),
    (Model, {"ID": "1", "at": "2026-01-01T00:00:00Z"}, "payload.ID: Input should be a valid integer"),
    (WithModel, {"model": {"ID": 1}, "tags": []}, "payload.model.at: Field required"),
    (WithModel, {"model": {"ID": 1, "at": "2026-01-01T00:00:00Z"}, "tags": ["a", "b", "c"]},
     "payload.tags: List should have at most 2 items after validation, not 3"),
    (list[Wide], [{}], "payload[0].a: Field required; payload[0].b: Field required; payload[0].c: Field required; "
     "payload[0].d: Field required; payload[0].e: Field required; and 1 more"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "payload", "words"), NOT_RECEIVED)
def test_received_payload_of_the_wrong_type_is_refused_with_its_path(annotation, payload, words):
    with pytest.raises(PayloadError) as caught:
        payload_type(annotation).decode(payload)

    assert str(caught.value) == words


NOT_SENT = [
    (Order, Order(1, WHEN, [Line(1, 1)]), "payload.lines[0].sku is of type int; it must be str"),
    (Order, {"id": 1}, "payload is of type dict; it must be Order"),
    (date, WHEN, "payload is of type datetime; it must be date"),
    (Color, "red", "payload is of type str; it must be Color"),
    (float, True, "payload is of type bool; it must be float"),
    (int, None, "payload is null; it must be int"),
    (list[int], (1,), "payload is of type tuple; it must be list"),
    (Person, {"name": "n"}, "payload.street is missing"),
    (Model, Model.model_construct(id="x", at=WHEN), "payload.ID: Input should be a valid integer"),
    (Model, object(), "payload is of type object; it must be Model"),
]


@pytest.mark.parametrize(("annotation", "value", "words"), NOT_SENT)
def test_payload_of_the_wrong_type_is_refused_before_sending(annotation, value, words):
    with pytest.raises(PayloadError) as caught:
        payload_type(annotation).encode(value)

    assert str(caught.value) == words


def test_without_an_annotation_everything_is_let_through():
    value = {"any": [1, object()]}

    assert payload_type().encode(value) is value
    assert payload_type().decode(value) is value


def test_fields_that_a_newer_sender_added_are_let_through():
    assert payload_type(Line).decode({"sku": "a", "qty": 1, "new": 1}) == Line("a", 1)
    person = {"street": "s", "name": "n", "new": 1}
    assert payload_type(Person).decode(person) == person


def test_an_error_quotes_no_value():
    secret = "secret-token"
    for annotation, payload in (
        (Order, {"id": secret, "at": secret}),
        (datetime, secret), (Color, secret), (Model, {"ID": secret, "at": secret}), (Literal["a"], secret), (int, secret),
    ):  # fmt: skip
        with pytest.raises(PayloadError) as caught:
            payload_type(annotation).decode(payload)
        assert secret not in str(caught.value)


@dataclass
class Tree:
    value: int | str | float | bool | None
    children: list[Tree]
    by_name: dict[str, Tree | None]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=9)
TREES = st.recursive(
    st.builds(Tree, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
              st.just([]), st.just({})),
    lambda inner: st.builds(Tree, st.integers(), st.lists(inner, max_size=3),
                            st.dictionaries(TEXTS, st.none() | inner, max_size=3)),
    max_leaves=10,
)  # fmt: skip


@pytest.mark.slow
@given(TREES)
def test_whatever_a_type_that_names_itself_holds_comes_back(tree):
    kind = payload_type(Tree)

    assert kind.decode(json.loads(json.dumps(kind.encode(tree)))) == tree
    assert kind.decode_text(kind.encode_text(tree)) == tree


def test_deeply_nested_payload_is_refused_without_a_crash():
    tree: Any = {"value": 1, "children": [], "by_name": {}}
    for _ in range(900):  # the deepest JSON that Python decodes
        tree = {"value": 1, "children": [tree], "by_name": {}}

    with pytest.raises(PayloadError, match="payload is nested too deeply"):
        payload_type(Tree).decode(tree)


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (str, "as it is", "as it is"),
        (Any, "as it is", "as it is"),
        (str | None, "as it is", "as it is"),
        (str | None, None, None),
        (int, 1, "1"),
        (Line, Line("ü", 1), '{"sku":"ü","qty":1,"price":"1"}'),
    ],
)
def test_an_event_holds_text_as_it_is_and_all_else_as_json(annotation, value, text):
    kind = payload_type(annotation)

    assert kind.encode_text(value) == text
    assert kind.decode_text(text) == value


@pytest.mark.parametrize(
    ("annotation", "text", "words"),
    [
        (int, "{", "payload is not valid JSON: "),
        (float, "NaN", "payload is not valid JSON: NaN is not a JSON number"),
        (int, "[" * 100_000, "payload is not valid JSON: "),
        (int, None, "payload is null; it must be int"),
        (str, None, "payload is null; it must be str"),
    ],
)
def test_text_of_an_event_that_does_not_fit_is_refused(annotation, text, words):
    with pytest.raises(PayloadError, match=words):
        payload_type(annotation).decode_text(text)


@pytest.mark.parametrize(
    ("annotation", "value"), [(Any, 1), (dict, {"a": {1}}), (list, [float("nan")])]
)
def test_payload_without_a_text_form_is_refused_for_an_event(annotation, value):
    with pytest.raises(PayloadError, match="payload"):
        payload_type(annotation).encode_text(value)


@dataclass
class NeedsMore:
    number: int
    more: Any = field(init=False)

    def __init__(self, number, more):
        self.number, self.more = number, more


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (NeedsMore, "NeedsMore cannot be a payload: its parameter more is not a field"),
        (object(), "cannot be a payload"),
        (type(sys), "module cannot be a payload: Unable to generate pydantic-core schema"),
    ],
)
def test_unsupported_payload_type_is_refused_at_declaration(annotation, words):
    with pytest.raises(ArgumentError, match=words):
        payload_type(annotation)


@pytest.mark.slow
def test_without_pydantic_all_works_that_does_not_need_it():
    program = """
import sys
sys.modules["pydantic"] = None
from dataclasses import dataclass
from datetime import timedelta
from pgsluice.errors import ArgumentError
from pgsluice.client.payload_type import payload_type

@dataclass
class Order:
    id: int

assert payload_type(Order).decode({"id": 1}) == Order(1)
try:
    payload_type(list[timedelta])
except ArgumentError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ran.stdout == (
        "timedelta cannot be a payload; use dict, list, str, int, float, bool, None, a dataclass or a TypedDict of "
        "them, or install pydantic\n"
    )


@pytest.mark.slow
def test_pydantic_is_not_imported_for_what_does_not_need_it():
    program = (
        "import sys; from pgsluice.client.payload_type import payload_type; payload_type(dict[str, list[int] | None]); "
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ran.stdout == "False\n"
