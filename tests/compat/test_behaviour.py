"""The same calls on PGMQ and on pgsluice: rows, columns, notices and errors are equal.

Timestamps are rounded to ten seconds, relative to now. Rows are sorted where PGMQ promises no
order. DIFFERENCES lists the intended differences.
"""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.string import TextLoader

LONG = "n" * 47
# Statement → why our result differs. A statement that no longer differs must leave the list.
DIFFERENCES: dict[str, str] = {}
SAME_TABLE = "names that fold to one table are refused: the queues would share their messages"
EMPTY = "an empty name is refused"
CONTROL = "control characters in a name are refused"
BYTES = (
    "names are limited to 47 bytes, so that no identifier is cut and no two queues share a table"
)
OTHER_CASE = "a queue is dropped only by the name it was created with"
SATURATES = "read_ct stays at its largest value: one message at the limit must not block the queue"
BROKEN = "metrics_all leaves out a queue without a table, with a warning, and shows the others"
PARTITION = "a queue named like another's default partition is not taken for it"


def differs(statement: str, reason: str) -> str:
    DIFFERENCES[statement] = reason
    return statement


SCENARIOS: dict[str, list[str]] = {
    "create": [
        "select * from pgmq.create('plain')",
        "select * from pgmq.create('plain')",
        "select * from pgmq.create(queue_name => 'named')",
        "select * from pgmq.create(null)",
        "select * from pgmq.create('with space')",
        "select * from pgmq.create('dot.ted')",
        "select * from pgmq.create('quo\"ted')",
        "select * from pgmq.create('hyphen-ated')",
        "select * from pgmq.create('ümläut_日本')",
        "select * from pgmq.create('MixedCase')",
        "select * from pgmq.create('MixedCase')",
        f"select * from pgmq.create('{LONG}')",
        f"select * from pgmq.create('{LONG}x')",
        "select * from pgmq.create('a$b')",
        "select * from pgmq.create('a;b')",
        "select * from pgmq.create('a--b')",
        "select * from pgmq.create('a''b')",
        "select * from pgmq.create('select')",
        "select * from pgmq.list_queues()",
        differs("select * from pgmq.create('mixedcase')", SAME_TABLE),
        differs("select * from pgmq.create('')", EMPTY),
        differs(r"select * from pgmq.create(E'new\nline')", CONTROL),
        differs(f"select * from pgmq.create('{'é' * 30}')", BYTES),
    ],
    "names": [
        "select * from pgmq.format_table_name('Orders', 'q')",
        "select * from pgmq.format_table_name('', 'a')",
        "select * from pgmq.format_table_name(null, 'q')",
        "select * from pgmq.format_table_name('x', null)",
        "select * from pgmq.format_table_name('a;b', 'q')",
        "select * from pgmq.format_table_name(prefix => 'P', queue_name => 'N')",
        "select * from pgmq.validate_queue_name('fine')",
        "select * from pgmq.validate_queue_name(null)",
        f"select * from pgmq.validate_queue_name('{LONG}')",
        f"select * from pgmq.validate_queue_name('{LONG}x')",
        "select * from pgmq.acquire_queue_lock('fine')",
        "select * from pgmq.acquire_queue_lock(null)",
    ],
    "drop_queue": [
        "select * from pgmq.drop_queue('nope')",
        "select * from pgmq.drop_queue(null)",
        "select * from pgmq.drop_queue('nope', true)",
        "select * from pgmq.create('gone')",
        "select pgmq.send('gone', '1'::jsonb)",
        "select * from pgmq.archive('gone', 1)",
        "select * from pgmq.drop_queue('gone')",
        "select * from pgmq.drop_queue('gone')",
        "select * from pgmq.list_queues() where queue_name = 'gone'",
        "select to_regclass('pgmq.q_gone'), to_regclass('pgmq.a_gone')",
        "select * from pgmq.create('gone')",
        "select * from pgmq.send('gone', '1'::jsonb)",
        "select * from pgmq.drop_queue('gone', partitioned => false)",
        "select * from pgmq.create('gone')",
        "select * from pgmq.drop_queue('gone', null)",
        "select * from pgmq.create('CaseD')",
        "select * from pgmq.drop_queue('CaseD')",
        "select * from pgmq.drop_queue('a;b')",
        "select * from pgmq.create('Pair')",
        differs("select * from pgmq.drop_queue('pAIR')", OTHER_CASE),
    ],
    "send": [
        "select * from pgmq.create('s')",
        """select * from pgmq.send('s', '{"n": 1}'::jsonb)""",
        """select * from pgmq.send('s', '{"n": 1}'::jsonb, '{"h": 1}'::jsonb)""",
        "select * from pgmq.send('s', '2'::jsonb, 30)",
        "select * from pgmq.send('s', '3'::jsonb, clock_timestamp() + interval '40 s')",
        "select * from pgmq.send('s', '4'::jsonb, '{}'::jsonb, 50)",
        "select * from pgmq.send('s', '5'::jsonb, '{}'::jsonb, clock_timestamp() + interval '60 s')",
        "select * from pgmq.send(queue_name => 's', msg => '6', headers => '[]', delay => 70)",
        "select send as id from pgmq.send('s', '7'::jsonb)",
        "select pgmq.send('s', '{}', 5)",
        "select pgmq.send('s', '{}')",
        "select pgmq.send('S', '8'::jsonb)",
        "select * from pgmq.send('s', null::jsonb)",
        "select * from pgmq.send('s', 'null'::jsonb, 'null'::jsonb)",
        "select * from pgmq.send('s', '9'::jsonb, null::jsonb)",
        "select * from pgmq.send('s', '10'::jsonb, -100)",
        "select * from pgmq.send('s', '11'::jsonb, 2147483647)",
        "select * from pgmq.send('s', '12'::jsonb, 'infinity'::timestamptz)",
        "select * from pgmq.send('s', '13'::jsonb, '-infinity'::timestamptz)",
        "select * from pgmq.send('s', '14'::jsonb, '2001-01-01'::timestamptz)",
        "select * from pgmq.send('s', '15'::jsonb, null::integer)",
        "select * from pgmq.send('s', '16'::jsonb, null::timestamptz)",
        "select * from pgmq.send('s', '17'::jsonb, null::jsonb, null::integer)",
        "select * from pgmq.send('s', '{}', null)",
        """select * from pgmq.send('s', '{}', '{"h": 1}')""",
        "select * from pgmq.send('s', 'no json')",
        "select * from pgmq.send('nope', '1'::jsonb)",
        "select * from pgmq.send(null, '1'::jsonb)",
        "select * from pgmq.send('a;b', '1'::jsonb)",
        "select * from pgmq.send('nope', '1'::jsonb, 5)",
        "select * from pgmq.q_s order by msg_id",
    ],
    "send_batch": [
        "select * from pgmq.create('b')",
        "select * from pgmq.send_batch('b', array['1', '2']::jsonb[])",
        "select * from pgmq.send_batch('b', array['3', '4']::jsonb[], array['{}', '[]']::jsonb[])",
        "select * from pgmq.send_batch('b', array['5', '6']::jsonb[], 30)",
        "select * from pgmq.send_batch('b', array['7']::jsonb[], clock_timestamp() + interval '40 s')",
        "select * from pgmq.send_batch('b', array['8']::jsonb[], array['1']::jsonb[], 50)",
        "select * from pgmq.send_batch('b', array['9']::jsonb[], array['1']::jsonb[], clock_timestamp())",
        "select * from pgmq.send_batch(queue_name => 'b', msgs => '{1}', headers => '{2}', delay => 60)",
        "select send_batch as id from pgmq.send_batch('b', array['10']::jsonb[])",
        "select * from pgmq.send_batch('b', array[null, '11', null]::jsonb[])",
        "select * from pgmq.send_batch('b', array['12', '13']::jsonb[], array[null, '{}']::jsonb[])",
        "select * from pgmq.send_batch('b', array['14', '15']::jsonb[], null::jsonb[])",
        "select * from pgmq.send_batch('b', array[['16', '17'], ['18', '19']]::jsonb[])",
        "select * from pgmq.send_batch('b', array['20', '21']::jsonb[], array[['1', '2'], ['3', '4']]::jsonb[])",
        "select * from pgmq.send_batch('b', '[5:6]={22,23}'::jsonb[])",
        "select * from pgmq.send_batch('b', array['24']::jsonb[], -5)",
        "select * from pgmq.send_batch('b', null::jsonb[])",
        "select * from pgmq.send_batch('b', '{}'::jsonb[])",
        "select * from pgmq.send_batch('b', '{}'::jsonb[], '{}'::jsonb[])",
        "select * from pgmq.send_batch('b', array['1', '2']::jsonb[], array['{}']::jsonb[])",
        "select * from pgmq.send_batch('b', array['1']::jsonb[], '{}'::jsonb[])",
        "select * from pgmq.send_batch('b', array['1']::jsonb[], array['{}', '{}']::jsonb[])",
        "select * from pgmq.send_batch('b', array['1']::jsonb[], null::integer)",
        "select * from pgmq.send_batch('b', array['1']::jsonb[], null)",
        "select * from pgmq.send_batch('nope', array['1']::jsonb[])",
        "select * from pgmq.send_batch('nope', '{}'::jsonb[])",
        "select * from pgmq.send_batch(null, array['1']::jsonb[])",
        "select * from pgmq.send_batch(null, null::jsonb[])",
        "select * from pgmq.q_b order by msg_id",
    ],
    "read": [
        "select * from pgmq.create('r')",
        """select pgmq.send_batch('r', array['{"k": 1}', '{"k": 2}', '[1, 2]', '"x"', null, 'null']::jsonb[])""",
        "select pgmq.send('r', '\"late\"'::jsonb, 100)",
        "select * from pgmq.read('r', 0, 0)",
        "select * from pgmq.read('r', 0, -1)",
        "select * from pgmq.read('r', 0, 2)",
        "select * from pgmq.read('r', -10, 1)",
        "select * from pgmq.read('r', 0, null)",
        "select * from pgmq.read('r', null, 1)",
        """select * from pgmq.read('r', 0, 9, '{"k": 2}')""",
        "select * from pgmq.read('r', 0, 9, '{}')",
        "select * from pgmq.read('r', 0, 9, null)",
        "select * from pgmq.read('r', 0, 9, '[]')",
        "select * from pgmq.read('r', 0, 9, '[2]')",
        "select * from pgmq.read('r', 0, 9, '\"x\"')",
        "select * from pgmq.read('r', 0, 9, 'null')",
        "select * from pgmq.read('r', 0, 9, '{\"nothing\": 1}')",
        "select * from pgmq.read('r', 0, 9, 'no json')",
        "select * from pgmq.read(queue_name => 'r', vt => 0, qty => 1, conditional => '{}')",
        "select msg_id from pgmq.read('R', 0, 1)",
        "select * from pgmq.read('r', 2147483647, 1)",
        "select * from pgmq.read('r', 30, 2)",
        "select * from pgmq.read('r', 30, 100)",
        "select * from pgmq.read('r', 30, 100)",
        "select * from pgmq.read('nope', 30, 1)",
        "select * from pgmq.read(null, 30, 1)",
        "select * from pgmq.read('r', 30)",
        "select * from pgmq.q_r order by msg_id",
    ],
    "pop": [
        "select * from pgmq.create('p')",
        "select pgmq.send_batch('p', array['1', '2', '3', '4', '5', '6', '7']::jsonb[])",
        "select pgmq.send('p', '8'::jsonb, 100)",
        "select msg_id, read_ct from pgmq.read('p', 0, 2)",
        "select * from pgmq.pop('p')",
        "select * from pgmq.pop('p', 0)",
        "select * from pgmq.pop('p', -1)",
        "select * from pgmq.pop('p', 2)",
        "select * from pgmq.pop(queue_name => 'p', qty => 1)",
        "select * from pgmq.pop('p', null)",
        "select * from pgmq.pop('p')",
        "select * from pgmq.pop('nope')",
        "select * from pgmq.pop(null)",
        "select msg_id from pgmq.q_p",
    ],
    "delete": [
        "select * from pgmq.create('d')",
        "select pgmq.send_batch('d', array['1', '2', '3', '4', '5']::jsonb[])",
        "select * from pgmq.delete('d', 1)",
        "select * from pgmq.delete('d', 1)",
        "select * from pgmq.delete('d', -1)",
        "select * from pgmq.delete('d', null::bigint)",
        "select * from pgmq.delete('d', null)",
        "select * from pgmq.delete('d', array[3, 2, 99, 3, null]::bigint[])",
        "select * from pgmq.delete('d', array[3, 2])",
        "select * from pgmq.delete('d', '{}'::bigint[])",
        "select * from pgmq.delete('d', null::bigint[])",
        "select * from pgmq.delete('d', array[[4], [5]]::bigint[])",
        "select * from pgmq.delete(queue_name => 'd', msg_id => 5)",
        "select * from pgmq.delete(queue_name => 'd', msg_ids => '{5}')",
        "select * from pgmq.delete('nope', 1)",
        "select * from pgmq.delete('nope', '{}'::bigint[])",
        "select * from pgmq.delete(null, 1)",
        "select * from pgmq.q_d",
    ],
    "archive": [
        "select * from pgmq.create('ar')",
        "select pgmq.send_batch('ar', array['1', '2', '3', '4']::jsonb[], array['1', '2', '3', '4']::jsonb[])",
        "select msg_id from pgmq.read('ar', 60, 2)",
        "select * from pgmq.archive('ar', 1)",
        "select * from pgmq.archive('ar', 1)",
        "select * from pgmq.archive('ar', null::bigint)",
        "select * from pgmq.archive('ar', null)",
        "select * from pgmq.archive('ar', array[3, 2, 99, 3, null]::bigint[])",
        "select * from pgmq.archive('ar', '{}'::bigint[])",
        "select * from pgmq.archive('ar', null::bigint[])",
        "select * from pgmq.archive(queue_name => 'ar', msg_ids => '{4}')",
        "select * from pgmq.archive(queue_name => 'ar', msg_id => 4)",
        "select * from pgmq.archive('nope', 1)",
        "select * from pgmq.archive('nope', '{1}'::bigint[])",
        "select * from pgmq.archive(null, 1)",
        "insert into pgmq.a_ar (msg_id, vt) values (5, now())",
        "select * from pgmq.send('ar', '5'::jsonb)",
        "select * from pgmq.archive('ar', 5)",
        "select msg_id from pgmq.q_ar",
        "select * from pgmq.a_ar order by msg_id",
    ],
    "set_vt": [
        "select * from pgmq.create('v')",
        "select pgmq.send_batch('v', array['1', '2', '3']::jsonb[])",
        "select * from pgmq.set_vt('v', 1, 60)",
        "select * from pgmq.set_vt('v', 1, 0)",
        "select * from pgmq.set_vt('v', 1, -60)",
        "select * from pgmq.set_vt('v', 1, clock_timestamp() + interval '90 s')",
        "select * from pgmq.set_vt('v', 1, 'infinity'::timestamptz)",
        "select * from pgmq.set_vt('v', 99, 60)",
        "select * from pgmq.set_vt('v', null::bigint, 60)",
        "select * from pgmq.set_vt('v', 1, null::integer)",
        "select * from pgmq.set_vt('v', 1, null::timestamptz)",
        "select * from pgmq.set_vt('v', 1, null)",
        "select * from pgmq.set_vt('v', array[3, 2, 99, 3]::bigint[], 60)",
        "select * from pgmq.set_vt('v', array[3, 1]::bigint[], clock_timestamp() + interval '90 s')",
        "select * from pgmq.set_vt('v', '{}'::bigint[], 60)",
        "select * from pgmq.set_vt('v', null::bigint[], 60)",
        "select * from pgmq.set_vt(queue_name => 'v', msg_id => 2, vt => 30)",
        "select * from pgmq.set_vt(queue_name => 'v', msg_ids => '{2}'::bigint[], vt => 30)",
        "select * from pgmq.set_vt('nope', 1, 60)",
        "select * from pgmq.set_vt(null, 1, 60)",
        "select * from pgmq.q_v order by msg_id",
    ],
    "purge_queue": [
        "select * from pgmq.create('pu')",
        "select * from pgmq.purge_queue('pu')",
        "select pgmq.send_batch('pu', array['1', '2', '3']::jsonb[])",
        "select * from pgmq.archive('pu', 1)",
        "select msg_id from pgmq.read('pu', 60, 1)",
        "select * from pgmq.purge_queue('pu')",
        "select * from pgmq.purge_queue(queue_name => 'PU')",
        "select pgmq.send('pu', '4'::jsonb)",
        "select msg_id from pgmq.a_pu",
        "select * from pgmq.purge_queue('nope')",
        "select * from pgmq.purge_queue(null)",
    ],
    "metrics": [
        "select * from pgmq.create('m')",
        "select * from pgmq.metrics('m')",
        "select pgmq.send_batch('m', array['1', '2', '3']::jsonb[])",
        "select pgmq.send('m', '4'::jsonb, 100)",
        "select msg_id from pgmq.read('m', 60, 1)",
        "select pgmq.delete('m', 2)",
        "select * from pgmq.metrics('m')",
        "select * from pgmq.metrics(queue_name => 'M')",
        "select * from pgmq.purge_queue('m')",
        "select * from pgmq.metrics('m')",
        "select * from pgmq.metrics('nope')",
        "select * from pgmq.metrics(null)",
        "select * from pgmq.metrics_all()",
        "select * from pgmq.create('m_default')",
        differs("select * from pgmq.metrics('m') as partitioned", PARTITION),
        "drop table pgmq.q_m_default",
        differs("select * from pgmq.metrics_all() as with_a_broken_queue", BROKEN),
    ],
    "limits": [
        "select * from pgmq.create('l')",
        "select pgmq.send('l', '1'::jsonb)",
        "update pgmq.q_l set read_ct = 2147483647",
        differs("select * from pgmq.read('l', 0, 1)", SATURATES),
        "select pgmq.delete('l', 1)",
        "select * from pgmq.read('l', 0, 5)",
    ],
}


# Drops the queues of earlier scenarios; some are broken on purpose.
CLEAR = """
do $$
declare
    v_table text;
begin
    for v_table in
        select c.oid::regclass::text from pg_class as c
        where c.relnamespace = 'pgmq'::regnamespace and c.relkind = 'r' and c.relname ~ '^[qa]_'
    loop
        execute 'drop table ' || v_table;
    end loop;
    delete from pgmq.meta;
end;
$$;
"""


def outcome(connection, statement):
    """Return everything that a caller can see of a statement."""
    notices = []

    def note(diagnostic):
        notices.append((diagnostic.severity, diagnostic.sqlstate, diagnostic.message_primary))

    connection.add_notice_handler(note)
    try:
        cursor = connection.execute(statement)
        columns = [column.name for column in cursor.description or ()]
        found = [comparable(columns, row) for row in cursor.fetchall()] if columns else []
    except psycopg.Error as error:
        return {"error": (error.sqlstate, error.diag.message_primary), "notices": notices}
    finally:
        connection.remove_notice_handler(note)
    # PGMQ promises an order only for new message ids.
    ordered = "send" in statement or "order by" in statement
    return {
        "columns": columns,
        "rows": found if ordered else sorted(found, key=repr),
        "notices": notices,
    }


def comparable(columns, row):
    return tuple(
        "some seconds"
        if name.endswith("_age_sec") and value is not None and 0 <= value <= 30
        else value
        for name, value in zip(columns, row, strict=True)
    )


class RelativeLoader(TextLoader):
    """Timestamps relative to now, rounded to ten seconds; infinities and the far past stay text."""

    def load(self, data):
        text = super().load(data)
        try:
            distance_s = (datetime.fromisoformat(text) - datetime.now(UTC)).total_seconds()
        except ValueError:
            return text
        return f"now {round(distance_s / 10) * 10:+d} s"


@pytest.fixture(scope="module")
def both(ours, upstream):
    for connection in (ours, upstream):
        connection.adapters.register_loader("timestamptz", RelativeLoader)
        connection.execute("set client_min_messages = notice")
    return ours, upstream


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_answers_as_pgmq_does(both, name):
    ours, upstream = both
    unlike = []
    for connection in both:
        connection.execute(CLEAR)

    for statement in SCENARIOS[name]:
        mine, theirs = outcome(ours, statement), outcome(upstream, statement)
        if (mine != theirs) != (statement in DIFFERENCES):
            unlike.append(f"{statement}\n    ours: {mine}\n    PGMQ: {theirs}")

    assert not unlike, "\n".join(unlike)


def test_every_difference_has_a_reason_and_is_tried():
    tried = {statement for statements in SCENARIOS.values() for statement in statements}

    assert DIFFERENCES.keys() <= tried
    assert all(DIFFERENCES.values())
