"""Topics, unlogged queues, polling and deprecated forms, compared as in test_behaviour."""

from __future__ import annotations

import pytest

from compat.test_behaviour import CLEAR, RelativeLoader, outcome

KEY, PATTERN, LONG = "k" * 255, "p" * 253 + ".#", "x" * 256
BAD_KEYS = [
    "", LONG, LONG + "!", "a b", "a.*", "a.#", "é", r"a\nb", ".a", ".", "a.", "a..b", "..", ".a.", "a/b", "a:b",
]  # fmt: skip
BAD_PATTERNS = [
    "", LONG, "a b", "é", "a!", r"a\nb", ".a", "a.", "a..b", ".", "a**", "**.##", "##", "a##b", "*#", "#*", "a.*#.b",
    "*.", ".#", "#..#", "a**b##",
]  # fmt: skip
GOOD_PATTERNS = [
    "a", "a.b", "a.*", "a.#", "#", "*", "*.b", "#.b", "a.#.b", "a*b", "a.*.#", "*.*", "A_b-c.9", "-", "_", "a#", "#b",
    "*a*", PATTERN,
]  # fmt: skip
KEYS = ["a", "a.b", "a.b.c", "a.x.b", "b", "axb", "a.xb", "A_b-c.9", "A.b", "-", "_", "ab", "aa.b"]
# Clients may depend on the errors of ambiguous calls.
SCENARIOS: dict[str, list[str]] = {
    "validate": [
        "select * from pgmq.validate_routing_key(null)",
        "select * from pgmq.validate_topic_pattern(null)",
        f"select * from pgmq.validate_routing_key('{KEY}')",
        "select * from pgmq.validate_routing_key(routing_key => 'logs.api-v1.error_9')",
        "select * from pgmq.validate_topic_pattern(pattern => 'logs.*.#')",
        *[f"select * from pgmq.validate_routing_key(E'{key}')" for key in BAD_KEYS],
        *[f"select * from pgmq.validate_topic_pattern(E'{bad}')" for bad in BAD_PATTERNS],
        *[f"select * from pgmq.validate_topic_pattern('{good}')" for good in GOOD_PATTERNS],
    ],
    "bind": [
        "select * from pgmq.create('b1')",
        "select * from pgmq.create('B2')",
        "select * from pgmq.bind_topic('a.*', 'b1')",
        "select * from pgmq.bind_topic('a.*', 'b1')",
        "select * from pgmq.bind_topic(pattern => '#', queue_name => 'B2')",
        "select * from pgmq.bind_topic('a.*', 'B2')",
        "select * from pgmq.bind_topic('a.*', 'b2')",
        "select * from pgmq.bind_topic('a.*', 'nope')",
        "select * from pgmq.bind_topic('a.*', '')",
        "select * from pgmq.bind_topic('a.*', null)",
        "select * from pgmq.bind_topic(null, null)",
        "select * from pgmq.bind_topic('', '')",
        "select * from pgmq.bind_topic('a..b', 'nope')",
        "select * from pgmq.list_topic_bindings() with ordinality",
        "select * from pgmq.list_topic_bindings('B2') with ordinality",
        "select * from pgmq.list_topic_bindings(queue_name => 'b1')",
        "select * from pgmq.list_topic_bindings('nope')",
        "select * from pgmq.list_topic_bindings(null)",
        "select * from pgmq.topic_bindings order by pattern, queue_name",
        "select * from pgmq.unbind_topic('a.*', 'b2')",
        "select * from pgmq.unbind_topic('a.*', 'B2')",
        "select * from pgmq.unbind_topic(pattern => 'a.*', queue_name => 'B2')",
        "select * from pgmq.unbind_topic('', 'B2')",
        "select * from pgmq.unbind_topic(null, null)",
        "select * from pgmq.unbind_topic('a', '')",
        "select * from pgmq.unbind_topic('a', null)",
        "select * from pgmq.unbind_topic('not..valid', 'nope')",
        "select * from pgmq.drop_queue('B2')",
        "select * from pgmq.list_topic_bindings()",
    ],
    "routing": [
        "select * from pgmq.create('all')",
        *[f"select * from pgmq.bind_topic('{good}', 'all')" for good in GOOD_PATTERNS],
        "select * from pgmq.list_topic_bindings('all') with ordinality",
        *[f"select * from pgmq.test_routing('{key}') with ordinality" for key in KEYS],
        "select * from pgmq.test_routing(routing_key => 'no.such')",
        "select * from pgmq.test_routing(null)",
        "select * from pgmq.test_routing('a.*')",
    ],
    "send_topic": [
        "select * from pgmq.create('t1')",
        "select * from pgmq.create('t2')",
        "select * from pgmq.create('T3')",
        "select * from pgmq.bind_topic('logs.*', 't1')",
        "select * from pgmq.bind_topic('logs.#', 't1')",
        "select * from pgmq.bind_topic('#.error', 't2')",
        "select * from pgmq.bind_topic('#', 'T3')",
        "select * from pgmq.send_topic('logs.error', '1'::jsonb)",
        "select * from pgmq.send_topic('logs', '2'::jsonb, 30)",
        """select * from pgmq.send_topic('logs.x', '3'::jsonb, '{"h": 1}'::jsonb, 0)""",
        "select * from pgmq.send_topic('logs.x', '4'::jsonb, null, 50)",
        "select * from pgmq.send_topic(routing_key => 'x', msg => '5', headers => '[]', delay => 70)",
        "select send_topic as queues from pgmq.send_topic('x.error', '6'::jsonb)",
        "select pgmq.send_topic('x', '{}', 5)",
        "select pgmq.send_topic('x', '7', null)",
        "select pgmq.send_topic('x', '8'::jsonb, null::jsonb, null)",
        "select pgmq.send_topic('x', '9'::jsonb, '{}'::jsonb)",
        "select pgmq.send_topic('x', null::jsonb)",
        "select pgmq.send_topic('x', 'null'::jsonb)",
        "select pgmq.send_topic('x', null::jsonb, -1)",
        "select pgmq.send_topic('x', '10'::jsonb, -1)",
        "select pgmq.send_topic('x..', null::jsonb, -1)",
        "select pgmq.send_topic(null, '11'::jsonb)",
        "select pgmq.send_topic('a.*', '12'::jsonb)",
        "select pgmq.unbind_topic('#', 'T3')",
        "select pgmq.send_topic('nobody', '13'::jsonb)",
        "select pgmq.send_topic('nobody', '14'::jsonb, null::integer)",
        "select * from pgmq.q_t1 order by msg_id",
        "select * from pgmq.q_t2 order by msg_id",
        "select * from pgmq.q_t3 order by msg_id",
        "drop table pgmq.q_t2",
        "select pgmq.send_topic('logs.error', '15'::jsonb)",
        "select count(*) from pgmq.q_t1",
    ],
    "send_batch_topic": [
        "select * from pgmq.create('y2')",
        "select * from pgmq.create('y1')",
        "select * from pgmq.bind_topic('a.#', 'y2')",
        "select * from pgmq.bind_topic('*.b', 'y2')",
        "select * from pgmq.bind_topic('#', 'y1')",
        "select * from pgmq.send_batch_topic('a.b', array['1', '2']::jsonb[])",
        "select * from pgmq.send_batch_topic('a.b', array['3', '4']::jsonb[], array['{}', null]::jsonb[])",
        "select * from pgmq.send_batch_topic('a.b', array['5']::jsonb[], 30)",
        "select * from pgmq.send_batch_topic('a.b', array['6']::jsonb[], clock_timestamp() + interval '40 s')",
        "select * from pgmq.send_batch_topic('a.b', array['7']::jsonb[], array['1']::jsonb[], 50)",
        "select * from pgmq.send_batch_topic('a.b', array['8']::jsonb[], null::jsonb[], clock_timestamp())",
        "select * from pgmq.send_batch_topic(routing_key => 'c', msgs => '{9}', headers => '{1}', delay => 60)",
        "select * from pgmq.send_batch_topic('c', array['10']::jsonb[], -100)",
        "select * from pgmq.send_batch_topic('c', array['11']::jsonb[], null::integer)",
        "select * from pgmq.send_batch_topic('c', array['12']::jsonb[], null)",
        "select * from pgmq.send_batch_topic('c', array[null, '13']::jsonb[])",
        "select * from pgmq.send_batch_topic('c', null::jsonb[])",
        "select * from pgmq.send_batch_topic('c', '{}'::jsonb[])",
        "select * from pgmq.send_batch_topic('c', array['1', '2']::jsonb[], array['1']::jsonb[])",
        "select * from pgmq.send_batch_topic('c', array['1']::jsonb[], '{}'::jsonb[])",
        "select * from pgmq.send_batch_topic('c..d', null::jsonb[])",
        "select * from pgmq.send_batch_topic(null, array['1']::jsonb[])",
        "select * from pgmq.unbind_topic('#', 'y1')",
        "select * from pgmq.send_batch_topic('nobody', array['14']::jsonb[])",
        "select * from pgmq.send_batch_topic('nobody', '{}'::jsonb[])",
        "select * from pgmq.q_y1 order by msg_id",
        "select * from pgmq.q_y2 order by msg_id",
    ],
    "kinds": [
        "select * from pgmq.create_unlogged('U1')",
        "select * from pgmq.create_unlogged(queue_name => 'U1')",
        "select * from pgmq.create('U1')",
        "select * from pgmq.create_non_partitioned('l1')",
        "select * from pgmq.create_non_partitioned(queue_name => 'l1')",
        "select * from pgmq.create_unlogged('l1')",
        "select * from pgmq.create('l1')",
        "select * from pgmq.list_queues()",
        "select relname, relpersistence from pg_class where relname ~ '^[qa]_[ul]1$'",
        "select relname, relpersistence from pg_class where relname ~ '^q_[ul]1_msg_id_seq$'",
        "select * from pgmq.send_batch('U1', array['1', '2', '3']::jsonb[])",
        "select * from pgmq.read('U1', 0, 1)",
        "select * from pgmq.pop('U1', 1)",
        "select * from pgmq.archive('U1', 2)",
        "select * from pgmq.delete('U1', 3)",
        "select * from pgmq.a_u1",
        "select * from pgmq.metrics('U1')",
        "select * from pgmq.purge_queue('U1')",
        "select * from pgmq.send('U1', '4'::jsonb)",
        "select * from pgmq.bind_topic('u', 'U1')",
        "select * from pgmq.drop_queue('U1')",
        "select * from pgmq.drop_queue('l1')",
        "select * from pgmq.topic_bindings",
        "select relname from pg_class where relname ~ '[qa]_[ul]1'",
        "select * from pgmq.create_unlogged(null)",
        "select * from pgmq.create_non_partitioned(null)",
        "select * from pgmq.create_unlogged('a;b')",
        "select * from pgmq.create_non_partitioned('a;b')",
        f"select * from pgmq.create_unlogged('{'n' * 48}')",
        f"select * from pgmq.create_non_partitioned('{'n' * 48}')",
    ],
    "detach_archive": [
        "select * from pgmq.create('de')",
        "select * from pgmq.detach_archive('de')",
        "select * from pgmq.detach_archive(queue_name => 'nope')",
        "select * from pgmq.detach_archive(null)",
        "select * from pgmq.detach_archive('a;b')",
    ],
    "read_with_poll": [
        "select * from pgmq.create('w')",
        "select * from pgmq.read_with_poll('w', 30, 1, 1)",
        """select pgmq.send_batch('w', array['{"k": 1}', '{"k": 2}', '[1]', 'null']::jsonb[])""",
        "select * from pgmq.read_with_poll('w', 0, 1, 0)",
        "select * from pgmq.read_with_poll('w', 0, 1, -1)",
        "select * from pgmq.read_with_poll('w', 0, 2)",
        "select * from pgmq.read_with_poll('w', 0, null)",
        "select * from pgmq.read_with_poll('w', 0, 1, null)",
        "select * from pgmq.read_with_poll('w', 0, 1, 1, null)",
        "select * from pgmq.read_with_poll('w', 0, 1, 1, -5)",
        "select * from pgmq.read_with_poll('w', 0, 0, 1)",
        "select * from pgmq.read_with_poll('w', 0, -1, 1)",
        "select * from pgmq.read_with_poll('w', null, 1, 1)",
        """select * from pgmq.read_with_poll('w', 0, 9, 1, 10, '{"k": 2}')""",
        "select * from pgmq.read_with_poll('w', 0, 9, 1, 10, '{}')",
        "select * from pgmq.read_with_poll('w', 0, 9, 1, 10, null)",
        "select * from pgmq.read_with_poll('w', 0, 9, 1, 10, '[]')",
        """select * from pgmq.read_with_poll('w', 0, 9, 1, 10, '{"nothing": 1}')""",
        "select msg_id from pgmq.read_with_poll(queue_name => 'W', vt => 0, qty => 1, max_poll_seconds => 1, "
        "poll_interval_ms => 10, conditional => '{}')",
        "select * from pgmq.read_with_poll('w', 30, 9, null, 10)",
        "select pgmq.send('w', '\"soon\"'::jsonb, 1)",
        "select * from pgmq.read_with_poll('w', 30, 9, 10, 10)",
        "select * from pgmq.read_with_poll('nope', 30, 1, 1)",
        "select * from pgmq.read_with_poll('nope', 30, 1, 0)",
        "select * from pgmq.read_with_poll(null, 30, 1, 1)",
        "select * from pgmq.read_with_poll('a;b', 30, 1, 0)",
        "select * from pgmq.read_with_poll('w', 30)",
    ],
}
# Statement → why our result differs.
DIFFERENCES = {
    "select relname, relpersistence from pg_class where relname ~ '^q_[ul]1_msg_id_seq$'": (
        "the ids of an unlogged queue are logged: after a crash they must not meet those in the archive"
    ),
}


@pytest.fixture(scope="module")
def both(ours, upstream):
    for connection in (ours, upstream):
        connection.adapters.register_loader("timestamptz", RelativeLoader)
        connection.execute("set client_min_messages = notice")
    return ours, upstream


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_answers_as_pgmq_does(both, name):
    unlike = []
    for connection in both:
        connection.execute(CLEAR)

    for statement in SCENARIOS[name]:
        mine, theirs = (outcome(connection, statement) for connection in both)
        if (mine != theirs) != (statement in DIFFERENCES):
            unlike.append(f"{statement}\n    ours: {mine}\n    PGMQ: {theirs}")

    assert not unlike, "\n".join(unlike)


def test_every_difference_is_tried():
    assert DIFFERENCES.keys() <= {
        tried for statements in SCENARIOS.values() for tried in statements
    }


def test_the_table_of_bindings_has_pgmqs_columns_keys_and_indexes(ours, upstream):
    query = """
        select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
            pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute as a
        left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = 'pgmq.topic_bindings'::regclass and a.attnum > 0
        union all
        select conname::text, contype::text, pg_get_constraintdef(oid), null
        from pg_constraint
        where conrelid = 'pgmq.topic_bindings'::regclass and contype <> 'n'
        union all
        select indexname::text, indexdef, null, null from pg_indexes where tablename = 'topic_bindings'
        order by 1, 2
    """

    mine = ours.execute(query).fetchall()

    assert len(mine) == 4 + 2 + 2
    assert mine == upstream.execute(query).fetchall()


@pytest.mark.parametrize(
    "name",
    ["list_topic_bindings", "test_routing", "validate_routing_key", "validate_topic_pattern",
     "bind_topic", "unbind_topic", "send_topic", "send_batch_topic", "read_with_poll"],
)  # fmt: skip
def test_planner_and_callers_are_promised_what_pgmq_promises(ours, upstream, name):
    query = (
        "select distinct provolatile::text, proisstrict from pg_proc "
        "where pronamespace = 'pgmq'::regnamespace and proname = %s"
    )

    mine = ours.execute(query, [name]).fetchall()

    assert len(mine) == 1
    assert mine == upstream.execute(query, [name]).fetchall()
