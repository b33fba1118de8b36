"""Every public function of PGMQ with edge values of every argument: same result, same state.

The calls are generated from PGMQ's catalogue: each overload with named and typed arguments, all
valid but one, which takes each of the values below. Each call starts with the same queues and is
rolled back. test_behaviour and the other files compare sequences of calls.
"""

from __future__ import annotations

import time

import pytest

from compat.test_behaviour import (
    BYTES,
    CONTROL,
    EMPTY,
    OTHER_CASE,
    SAME_TABLE,
    RelativeLoader,
    outcome,
)
from compat.test_notify import REFUSED
from support import rows

FORETELLS = "validate_queue_name refuses what create refuses"
# Not callable on PGMQ here, as it needs pg_partman.
PARTITIONED = {"create_partitioned", "convert_archive_partitioned"}
NAMES = [
    "acquire_queue_lock", "archive", "bind_topic", "create", "create_fifo_index", "create_fifo_indexes_all",
    "create_non_partitioned", "create_unlogged", "delete", "detach_archive", "disable_notify_insert", "drop_queue",
    "enable_notify_insert", "format_table_name", "list_notify_insert_throttles", "list_queues",
    "list_topic_bindings", "metrics", "metrics_all", "notify_queue_listeners", "pop", "purge_queue", "read",
    "read_grouped", "read_grouped_head", "read_grouped_head_with_poll", "read_grouped_rr",
    "read_grouped_rr_with_poll", "read_grouped_with_poll", "read_with_poll", "send", "send_batch",
    "send_batch_topic", "send_topic", "set_vt", "test_routing", "unbind_topic", "update_notify_insert",
    "validate_queue_name", "validate_routing_key", "validate_topic_pattern",
]  # fmt: skip

# Existing queues, each with two visible messages and a delayed one.
ODD = [
    "with space", "dot.ted", 'quo"ted', "hy-phen", "ümläut_日本", "Mixed", "select", "%s", "%I", "1", "_", "n" * 47,
    "é" * 23 + "n", "sla/sh", "emoji🐘", " ", "q_e",
]  # fmt: skip
CASE_VARIANTS = ["E", "mixed", "MIXED", "WITH SPACE", "Ümläut_日本"]
CONTROLS = ["\n", "a\nb", "a\tb", "\x7f"]
MULTIBYTE = ["é" * 24, "é" * 47]
FORBIDDEN = ["a$b", "a;b", "a--b", "a'b"]
ABSENT = [
    *CASE_VARIANTS, *CONTROLS, *MULTIBYTE, *FORBIDDEN, "", "nope", "E ", "N" * 46, "n" * 48, "x" * 70, "x" * 300, "new one",
    "New", "new.one", 'new"one', "new-one", "é", "🐘",
]  # fmt: skip
FEW = ["", "nope", "Mixed", "with space", "a;b"]
KEYS = [
    "a.b",
    "a",
    "nobody",
    "",
    "a b",
    ".a",
    "a.",
    "a..b",
    "a.*",
    "é",
    "k" * 255,
    "k" * 256,
    "A.B",
    "-",
    "_",
    "\n",
]
PATTERNS = [*KEYS, "#", "*", "a.#", "a**", "##", "*#", "#*", "a*b"]
INTEGERS = ["null", "-2147483648", "-1", "0", "1", "2147483647"]


def literals(texts):
    return ["null", *["E'" + text.replace("'", "''").replace("\n", "\\n") + "'" for text in texts]]


# Argument and type → a valid value, then the other values.
VALUES = {
    ("queue_name", "text"): ["'e'", *literals([*ODD, *ABSENT])],
    ("prefix", "text"): ["'q'", "null", "''", "'Q'", "'a b'", "'a;b'", "'$'"],
    ("routing_key", "text"): ["'a.b'", *literals(KEYS)],
    ("pattern", "text"): ["'a.*'", *literals(PATTERNS)],
    ("partitioned", "boolean"): ["false", "null", "true"],
    ("msg", "jsonb"): ["'{\"n\": 1}'", "null", "'null'", "'{}'", "'[]'", "'\"\"'", "'1e400'"],
    ("headers", "jsonb"): ["'{\"h\": 1}'", "null", "'null'", "'{}'", "'[]'", "'7'"],
    ("msgs", "jsonb[]"): [
        "'{1,2}'", "null", "'{}'", "'{null}'", "'{null,null}'", "'{1}'", "'{1,2,3}'", "'{{1,2},{3,4}}'", "'{{1},{2}}'",
        "'[5:6]={1,2}'", "'[0:1]={1,2}'", "'{2,2}'",
    ],
    ("headers", "jsonb[]"): [
        "'{3,4}'", "null", "'{}'", "'{null,null}'", "'{3}'", "'{3,4,5}'", "'{{3,4},{5,6}}'", "'{{3},{4}}'",
        "'[5:6]={3,4}'",
    ],
    ("delay", "integer"): ["0", *INTEGERS],
    ("delay", "timestamp with time zone"): [
        "clock_timestamp()", "null", "'infinity'", "'-infinity'", "'2001-01-01'", "'4713-01-01 BC'", "'294276-12-31'",
        "clock_timestamp() + interval '100 s'",
    ],
    ("vt", "integer"): ["100", *INTEGERS],
    ("qty", "integer"): ["2", *INTEGERS],
    ("conditional", "jsonb"): [
        "'{}'", "null", "'null'", "'[]'", "'{\"n\": 1}'", "'{\"n\": null}'", "'1'", "'\"\"'", "'{\"other\": {}}'",
    ],
    # Only with visible messages: without any, null and the largest value wait forever.
    ("max_poll_seconds", "integer"): ["1", *INTEGERS],
    ("poll_interval_ms", "integer"): ["10", *INTEGERS],
    ("msg_id", "bigint"): ["1", "null", "-1", "0", "2", "99", "9223372036854775807", "-9223372036854775808"],
    ("msg_ids", "bigint[]"): [
        "'{2,1}'", "null", "'{}'", "'{null}'", "'{1,1,1}'", "'{99}'", "'{99,3,null,1,3}'", "'{{1},{2}}'",
        "'[7:8]={1,2}'", "'{9223372036854775807,-1,0}'", "(select array_agg(n) from generate_series(-5, 5000) as n)",
    ],
    ("throttle_interval_ms", "integer"): ["50", *INTEGERS],
}  # fmt: skip
VALUES["vt", "timestamp with time zone"] = VALUES["delay", "timestamp with time zone"]

SIGNATURES = """
select coalesce(p.proargnames[:p.pronargs], '{}'),
    array(select format_type(t.oid, null) from unnest(p.proargtypes::oid[]) with ordinality as t (oid, n) order by t.n)
from pg_proc as p
where p.pronamespace = 'pgmq'::regnamespace and p.proname = %s
order by p.oid::regprocedure::text
"""
# Times are rounded to ten seconds and must not cross a boundary between the two calls.
FRESH_S = 2.0
FRESH = """
do $$
declare
    v_queue name;
begin
    for v_queue in select pgmq.format_table_name(m.queue_name, 'q') from pgmq.meta as m loop
        execute format(
            'update pgmq.%I set enqueued_at = now() - interval ''100 s'',
                vt = case when msg_id = 2 then now() + interval ''100 s'' else now() - interval ''100 s'' end',
            v_queue
        );
    end loop;
    update pgmq.meta set created_at = now() - interval '100 s';
    update pgmq.topic_bindings set bound_at = now() - make_interval(secs => 100 * length(queue_name));
end;
$$
"""
NEXT_IDS = """
select setval(format('pgmq.%I', pgmq.format_table_name(m.queue_name, 'q') || '_msg_id_seq'), 4) from pgmq.meta as m
"""
TABLES = """
select quote_ident(c.relname), c.relpersistence::text
from pg_class as c
where c.relnamespace = 'pgmq'::regnamespace and c.relkind = 'r' and c.relname ~ '^[qa]_'
order by c.relname
"""
COLUMNS = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers"
REST = [
    "select queue_name, is_partitioned, is_unlogged from pgmq.meta order by queue_name",
    "select pattern, queue_name, compiled_regex from pgmq.topic_bindings order by pattern, queue_name",
    "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()",
]


def prepare(connection):
    connection.adapters.register_loader("timestamptz", RelativeLoader)
    connection.execute("set client_min_messages = warning")
    for name in ["e", *ODD]:
        rows(connection, "select pgmq.create(%s)", name)
        rows(
            connection,
            'select pgmq.send_batch(%s, \'{1,2,"{\\"n\\": 1}"}\'::jsonb[], '
            'array[\'{"x-pgmq-group": "a"}\', null, \'{"x-pgmq-group": "b"}\']::jsonb[])',
            name,
        )
    for pattern, name in [("a.*", "e"), ("#", "Mixed"), ("*.b", "with space")]:
        rows(connection, "select pgmq.bind_topic(%s, %s)", pattern, name)
    rows(connection, "select pgmq.enable_notify_insert('e', 50)")
    connection.execute("set client_min_messages = notice")


@pytest.fixture(scope="module")
def both(ours, upstream):
    for connection in (ours, upstream):
        prepare(connection)
    return ours, upstream


def calls(signatures, name):
    """Return calls of each overload, with each value of each argument and the others valid."""
    made = {}
    tried = set()
    for names, types in signatures:
        arguments = list(zip(names, types, strict=True))
        valid = {a: VALUES[a][0] for a in arguments}
        for changed in [None, *arguments]:
            # All overloads look up their queue alike.
            again = changed in tried and name != "drop_queue"
            values = [None] if changed is None else VALUES[changed][1:]
            if changed == ("queue_name", "text"):
                values = literals(FEW) if again else values
                tried.add(changed)
            for literal in values:
                chosen = valid if literal is None else {**valid, changed: literal}
                listed = ", ".join(
                    f"{argument} => {value}::{kind.replace('timestamp with time zone', 'timestamptz')}"
                    for (argument, kind), value in chosen.items()
                )
                made[f"select * from pgmq.{name}({listed})"] = None
    return list(made)


def state(connection):
    tables = rows(connection, TABLES)
    every = " union all ".join(
        f"select {number}, {COLUMNS} from pgmq.{table}" for number, (table, _) in enumerate(tables)
    )
    return [
        tables,
        rows(connection, f"{every} order by 1, 2"),
        *[rows(connection, query) for query in REST],
    ]


def answer(connection, statement):
    """Return the result of the call and the schema after it, and roll back."""
    connection.execute("begin")
    try:
        connection.execute(NEXT_IDS)
        result = outcome(connection, statement)
        # The number of truncated identifiers depends on the function's internal statements.
        result["notices"] = [notice for notice in result["notices"] if notice[1] != "42622"]
        return result if "error" in result else {**result, "state": state(connection)}
    finally:
        connection.execute("rollback")


CREATING = ("create", "create_non_partitioned", "create_unlogged", "validate_queue_name")
DIFFERENCES = {
    **{
        f"select * from pgmq.{function}(queue_name => {literal}::text)": reason
        for function in CREATING
        for names, reason in [
            (CASE_VARIANTS, SAME_TABLE),
            (CONTROLS, CONTROL),
            (MULTIBYTE, BYTES),
            ([""], EMPTY),
        ]
        for literal in literals(names)[1:]
    },
    **{
        f"select * from pgmq.validate_queue_name(queue_name => {literal}::text)": FORETELLS
        for literal in literals(FORBIDDEN)[1:]
    },
    **{
        f"select * from pgmq.drop_queue(queue_name => {literal}::text{rest})": OTHER_CASE
        for literal in literals(CASE_VARIANTS)[1:]
        for rest in ("", ", partitioned => false::boolean")
    },
    **{
        "select * from pgmq.enable_notify_insert("
        f"queue_name => {literal}::text, throttle_interval_ms => 50::integer)": REFUSED
        for literal in literals(CASE_VARIANTS[1:])[1:]
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_argument_at_its_edges_gets_pgmqs_answer(both, name):
    ours, upstream = both
    unlike = []
    signatures = rows(upstream, SIGNATURES, name)
    statements = calls(signatures, name)

    fresh_until = 0.0
    for statement in statements:
        if time.monotonic() > fresh_until:
            ours.execute(FRESH)
            upstream.execute(FRESH)
            fresh_until = time.monotonic() + FRESH_S
        mine, theirs = answer(ours, statement), answer(upstream, statement)
        if mine != theirs and statement not in DIFFERENCES:
            # Ages are whole seconds and may change between the two calls.
            ours.execute(FRESH)
            upstream.execute(FRESH)
            mine, theirs = answer(ours, statement), answer(upstream, statement)
        if (mine != theirs) != (statement in DIFFERENCES):
            unlike.append((statement, mine, theirs))

    assert statements
    assert not unlike, "\n".join(described(*one) for one in unlike)
    listed = {statement for statement in DIFFERENCES if f"pgmq.{name}(" in statement}
    assert listed <= set(statements)


def described(statement, mine, theirs):
    keys = [key for key in sorted({*mine, *theirs}) if mine.get(key) != theirs.get(key)]
    return "\n".join(
        [statement]
        + [
            f"    {key}: ours {mine.get(key)!s:.300}\n    {key}: PGMQ {theirs.get(key)!s:.300}"
            for key in keys
        ]
    )


def test_no_public_function_of_pgmq_is_left_out(upstream):
    query = """
        select distinct proname::text from pg_proc
        where pronamespace = 'pgmq'::regnamespace and not starts_with(proname, '_')
    """

    assert {name for (name,) in rows(upstream, query)} == {*NAMES, *PARTITIONED}
