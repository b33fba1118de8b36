"""Shapes of captured tables: what a change of the shape means for existing rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pgsluice.lake.shapes import Column, Shape, transition

ID = Column(1, "id", "integer", -1, "", False, "", "700")
NOTE = Column(2, "note", "text", -1, "", False, "", "700")
WAS = Shape("a", 16384, (ID, NOTE), 2, "16384 16384", 1)


def shape(*columns: Column, **facts: object) -> Shape:
    return replace(WAS, columns=columns, **facts)  # type: ignore[arg-type]


def retyped(was: str, now: str) -> str:
    column = replace(NOTE, type=now, version="800")
    found = transition(shape(ID, replace(NOTE, type=was)), shape(ID, column))
    return "rewritten" if found.rewritten else found.kind


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ("smallint", "bigint", "widened"),
        ("bigint", "integer", "redefined"),
        ("integer", "numeric", "widened"),
        ("integer", "numeric(12,0)", "widened"),
        ("integer", "numeric(12,2)", "rewritten"),
        ("integer", "double precision", "rewritten"),
        ("bigint", "double precision", "redefined"),
        ("integer", "real", "redefined"),
        ("real", "double precision", "rewritten"),
        ("double precision", "real", "redefined"),
        ("numeric(10,2)", "numeric(12,2)", "widened"),
        ("numeric(10,2)", "numeric(12,4)", "rewritten"),
        ("numeric(10,2)", "numeric(10,4)", "redefined"),
        ("numeric(10,2)", "numeric", "widened"),
        ("numeric", "numeric(10,2)", "redefined"),
        ("numeric(5,-2)", "numeric(6,-2)", "widened"),
        ("numeric", "integer", "redefined"),
        ("character varying(5)", "character varying(9)", "widened"),
        ("character varying(9)", "character varying(5)", "redefined"),
        ("character varying(5)", "text", "widened"),
        ("text", "character varying", "widened"),
        ("text", "character varying(5)", "redefined"),
        ("character varying(5)", "character(5)", "redefined"),
        ("character(5)", "character(9)", "redefined"),
        ("character(5)", "text", "redefined"),
        ("timestamp(3) without time zone", "timestamp without time zone", "widened"),
        ("timestamp(3) without time zone", "timestamp(6) without time zone", "widened"),
        ("timestamp without time zone", "timestamp(0) without time zone", "redefined"),
        ("timestamp without time zone", "timestamp with time zone", "redefined"),
        ("json", "jsonb", "redefined"),
        ("cidr", "inet", "redefined"),
        ("smallint[]", "integer[]", "widened"),
        ("numeric(4,1)[]", "numeric(6,2)[]", "redefined"),
    ],
)
def test_change_of_type_keeps_all_values_or_is_harmful(was: str, now: str, kind: str):
    assert retyped(was, now) == kind


def test_columns_are_known_by_their_numbers():
    home, work = replace(NOTE, name="home"), replace(NOTE, name="work", attnum=3)
    was = shape(ID, home, work, attributes=3)

    swapped = transition(was, shape(ID, replace(home, name="work"), replace(work, name="home")))
    added_again = transition(was, shape(ID, replace(home, attnum=4), work, attributes=4))

    assert swapped.renamed == {"home": "work", "work": "home"}
    assert (swapped.kind, swapped.harm) == ("renamed", None)
    assert (added_again.dropped, added_again.added) == (("home",), ("home",))


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (shape(ID, NOTE, table_oid=5), "dropped and created again"),
        (shape(ID, NOTE, replace(NOTE, attnum=3, name="n", missing=True), attributes=3), "n was added with a default"),
        (
            shape(ID, NOTE, replace(NOTE, attnum=3, name="n"), attributes=3, storage="16384 17000"),
            "n was added with a default",
        ),
        (
            shape(ID, NOTE, Column(3, "n", "text"), attributes=3, storage="16384 17000"),
            "n was added with a default",
        ),
        (shape(ID, replace(NOTE, version="800"), storage="16384 17000"), "note was altered and all rows"),
        (shape(ID, replace(NOTE, definition='enum ["b"]')), "the type of column note was changed"),
    ],
)  # fmt: skip
def test_change_of_existing_rows_is_harmful(now: Shape, reason: str):
    was = shape(ID, replace(NOTE, definition='enum ["a"]')) if "type" in reason else WAS

    assert reason in str(transition(was, now).harm)


def test_column_that_was_not_captured_earlier_is_harmful():
    assert "was not captured" in str(transition(shape(ID, attributes=2), WAS).harm)


@pytest.mark.parametrize(
    "now",
    [
        shape(ID, replace(NOTE, version="800")),
        shape(ID, NOTE, storage="16384 17000"),
        shape(ID, replace(NOTE, version="800"), storage="20000 20000"),  # another first partition
        shape(ID, NOTE, replace(NOTE, attnum=3, name="n"), attributes=3),
    ],
)
def test_change_without_an_effect_on_existing_rows_is_harmless(now: Shape):
    assert transition(WAS, now).harm is None


@pytest.mark.parametrize(
    ("was", "now", "is_harmful"),
    [
        ('enum ["a", "b"]', 'enum ["a", "c", "b"]', False),
        ('enum ["a", "c", "b"]', 'enum ["a", "b"]', False),  # of a concurrent transaction
        ('enum ["a", "b"]', 'enum ["a", "x"]', True),
        ('composite [["x", "integer", null]]', 'composite [["x", "integer", null], ["y", "integer", null]]', True),
        ("", 'enum ["a"]', True),
    ],
)  # fmt: skip
def test_new_label_is_harmless_and_a_renamed_one_is_not(was: str, now: str, is_harmful: bool):
    found = transition(
        shape(ID, replace(NOTE, definition=was)), shape(ID, replace(NOTE, definition=now))
    )

    assert (found.harm is not None) == is_harmful


def test_facts_that_a_transaction_could_not_see_are_those_of_the_earlier_shape():
    was = shape(
        ID, replace(NOTE, type="numeric(10,2)", modifier=655366, definition="", version="700")
    )
    unseen = Column(2, "remark", "numeric")

    filled = shape(ID, unseen).filled(was)

    assert filled.columns[1] == replace(was.columns[1], name="remark")
    assert shape(ID, Column(2, "note", "text")).filled(was).columns[1].type == "text"
    late = shape(ID, replace(was.columns[1], missing=True))
    assert "added with a default" in str(transition(shape(ID, unseen), late).harm)


def test_shape_survives_json():
    assert Shape.from_json(WAS.to_json()) == WAS
    # The state of a table is written only if its shape differs from the stored one.
    assert json.loads(json.dumps(WAS.to_json())) == WAS.to_json()
