"""Tables and shapes among events, and the events of each."""

from __future__ import annotations

import pyarrow as pa

from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.reading import Sources, events_in, tables_in

ITEM, OTHER = TableName("public", "item"), TableName("public", "Other")
EVENTS = [
    (1, "c", "public.item", "ab"),
    (2, "c", 'public."Other"', "0f"),
    (3, "u", "public.item", "cd"),
    (4, "d", "public.item", "ab"),
    (5, "order.paid", "public.item", "ab"),  # of an application
    (6, "u", "public.item", "no shape"),
    (7, "I:id", "public.item", "ab"),  # of pgq.logutriga, with the former row
    (8, None, "public.item", "ab"),
    (9, "c", None, "ab"),
    (10, "c", "public.item", None),
    (11, "c\n", "public.item", "ab"),
]


def batch(*chosen: int) -> pa.RecordBatch:
    rows = [event for event in EVENTS if not chosen or event[0] in chosen]
    text = [pa.array(column, pa.string()) for column in list(zip(*rows, strict=True))[1:]] or 3 * [
        pa.array([], pa.string())
    ]
    return pa.record_batch(
        [pa.array([row[0] for row in rows], pa.int64()), *text],
        ["ev_id", "ev_type", "ev_extra1", "ev_extra2"],
    )


def test_tables_have_the_first_event_of_each_shape():
    assert tables_in(batch()) == Sources(
        {ITEM: {"ab": 1, "cd": 3, "": 6}, OTHER: {"0f": 2}}, frozenset(["public.item"])
    )
    assert tables_in(batch(4, 3)).shapes == {ITEM: {"ab": 4, "cd": 3}}


def test_no_events_have_no_tables():
    none = batch(-1)

    assert tables_in(none) == Sources()
    assert list(events_in(none, {ITEM}, {})) == []


def test_events_of_wanted_tables_keep_their_order():
    found = {
        (name, shape): events.column("ev_id").to_pylist()
        for name, shape, events in events_in(batch(), {ITEM}, {"public.item": ITEM})
    }

    assert found == {(ITEM, "ab"): [1, 4], (ITEM, "cd"): [3], (ITEM, ""): [6, 7, 10]}


def test_events_with_joined_names_are_left_out_if_the_table_is_unknown():
    found = [name for name, _, events in events_in(batch(2, 7), {ITEM, OTHER}, {})]

    assert found == [OTHER]
