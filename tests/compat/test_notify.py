"""Notifications: the same calls on PGMQ and pgsluice send the same notifications."""

from __future__ import annotations

import pytest

from compat.test_behaviour import CLEAR, RelativeLoader, outcome
from support import rows

# Statement → why our result differs. A statement that no longer differs must leave the list.
DIFFERENCES: dict[str, str] = {}
CASE = "a queue whose name has upper case notifies too, in both spellings; PGMQ's never does"
STATEMENT = "the trigger runs once for a statement, and is no constraint that could be deferred"
UNKNOWN = "a queue without a row in the table of throttles notifies of everything, not of nothing"
MOMENT = "the moment is outside the table, so that no sender waits for another"
NOTHING = "a statement that inserts no row notifies too"

REFUSED = (
    "a name without a queue is refused before anything is done, so there is no notice of a trigger"
)


def differs(statement: str, reason: str) -> str:
    DIFFERENCES[statement] = reason
    return statement


LIST = "select * from pgmq.list_notify_insert_throttles()"
SCENARIOS: dict[str, list[str]] = {
    "enable": [
        "select * from pgmq.create('e')",
        "select * from pgmq.enable_notify_insert('e')",
        LIST,
        "select * from pgmq.enable_notify_insert('e', 7)",
        "select * from pgmq.enable_notify_insert(queue_name => 'e', throttle_interval_ms => 0)",
        LIST,
        "select * from pgmq.enable_notify_insert('e', -1)",
        "select * from pgmq.enable_notify_insert('e', null)",
        "select * from pgmq.enable_notify_insert('E')",
        "select * from pgmq.enable_notify_insert('nope')",
        "select * from pgmq.enable_notify_insert('nope', -1)",
        "select * from pgmq.enable_notify_insert(null)",
        "select * from pgmq.enable_notify_insert('a;b', -1)",
        "select * from pgmq.enable_notify_insert('')",
        "create table pgmq.q_stray (vt timestamptz)",
        differs("select * from pgmq.enable_notify_insert('stray')", REFUSED),
        LIST,
    ],
    "disable": [
        "select * from pgmq.create('d')",
        "select * from pgmq.disable_notify_insert('d')",
        "select * from pgmq.enable_notify_insert('d')",
        "select * from pgmq.disable_notify_insert(queue_name => 'd')",
        "select * from pgmq.disable_notify_insert('d')",
        "select * from pgmq.disable_notify_insert('nope')",
        "select * from pgmq.disable_notify_insert(null)",
        "select * from pgmq.disable_notify_insert('a$b')",
        LIST,
    ],
    "update": [
        "select * from pgmq.create('u')",
        "select * from pgmq.update_notify_insert('u', 5)",
        "select * from pgmq.enable_notify_insert('u')",
        "select * from pgmq.update_notify_insert(queue_name => 'u', throttle_interval_ms => 5)",
        LIST,
        "select * from pgmq.update_notify_insert('u', -5)",
        "select * from pgmq.update_notify_insert('u', null)",
        "select * from pgmq.update_notify_insert('U', 5)",
        "select * from pgmq.update_notify_insert('nope', 5)",
        "select * from pgmq.update_notify_insert('nope', -5)",
        "select * from pgmq.update_notify_insert(null, 5)",
        "select * from pgmq.update_notify_insert('', 5)",
        "select * from pgmq.update_notify_insert('u')",
    ],
    "notifications": [
        "select * from pgmq.create('h')",
        "select pgmq.send('h', '0'::jsonb)",
        "select pgmq.enable_notify_insert('h', 60000)",
        "select pgmq.send('h', '1'::jsonb)",
        LIST,
        "select pgmq.send('h', '2'::jsonb)",
        "select pgmq.update_notify_insert('h', 60000)",
        LIST,
        "select pgmq.send('H', '3'::jsonb, 100)",
        "select pgmq.send('h', '4'::jsonb)",
        "select pgmq.enable_notify_insert('h', 0)",
        "select pgmq.send_batch('h', array['5', '6']::jsonb[])",
        "select pgmq.send('h', '7'::jsonb) from generate_series(1, 3)",
        "insert into pgmq.q_h (vt) values (now())",
        differs("insert into pgmq.q_h (vt) select now() where false", NOTHING),
        "select pgmq.delete('h', 1)",
        "select pgmq.archive('h', 2)",
        "select count(*) from pgmq.read('h', 0, 9)",
        "select * from pgmq.purge_queue('h')",
        "do $$ begin perform pgmq.send('h', '8'::jsonb); raise exception 'no'; end $$",
        "select pgmq.disable_notify_insert('h')",
        "select pgmq.send('h', '9'::jsonb)",
    ],
    "names": [
        "select * from pgmq.create('Mixed')",
        "select * from pgmq.enable_notify_insert('Mixed', 0)",
        "select * from pgmq.enable_notify_insert('mixed', 0)",
        differs("select pgmq.send('Mixed', '1'::jsonb)", CASE),
        "select * from pgmq.create('with space.dot')",
        "select * from pgmq.enable_notify_insert('with space.dot', 0)",
        "select pgmq.send('with space.dot', '1'::jsonb)",
    ],
    "drop": [
        "select * from pgmq.create('dr')",
        "select * from pgmq.enable_notify_insert('dr', 0)",
        "select * from pgmq.drop_queue('dr')",
        LIST,
        "select relname from pg_class where relname ~* '_dr' order by 1",
        "select * from pgmq.create('dr')",
        "select pgmq.send('dr', '1'::jsonb)",
    ],
    "table": [
        "select * from pgmq.create('t')",
        "select * from pgmq.enable_notify_insert('t', 0)",
        "select queue_name, throttle_interval_ms from pgmq.notify_insert_throttle",
        "select pgmq.send('t', '1'::jsonb)",
        differs("select last_notified_at from pgmq.notify_insert_throttle", MOMENT),
        "update pgmq.notify_insert_throttle set throttle_interval_ms = 60000",
        LIST,
        "select pgmq.send('t', '2'::jsonb)",
        differs("set constraints pgmq.trigger_notify_queue_insert_listeners deferred", STATEMENT),
        "delete from pgmq.notify_insert_throttle",
        differs("select pgmq.send('t', '3'::jsonb) as without_a_row", UNKNOWN),
        "insert into pgmq.notify_insert_throttle (queue_name) values ('nope')",
    ],
}
CHANNELS = ("q_h", "q_Mixed", "q_mixed", "q_with space.dot", "q_dr", "q_t")


@pytest.fixture(scope="module")
def both(ours, upstream):
    for connection in (ours, upstream):
        connection.adapters.register_loader("timestamptz", RelativeLoader)
        connection.execute("set client_min_messages = notice")
        for channel in CHANNELS:
            connection.execute(f'listen "pgmq.{channel}.INSERT"')
    return ours, upstream


def outcome_and_notifications(connection, statement):
    """Return the visible result of a statement and the notifications it sent."""
    notifications = []

    def note(notification):
        notifications.append((notification.channel, notification.payload))

    connection.add_notify_handler(note)
    try:
        seen = outcome(connection, statement)
        connection.execute("select 1")  # receives pending notifications
    finally:
        connection.remove_notify_handler(note)
    return {**seen, "notifications": notifications}


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_answers_and_notifies_as_pgmq_does(both, name):
    ours, upstream = both
    unlike = []
    for connection in both:
        connection.execute(CLEAR)

    for statement in SCENARIOS[name]:
        mine, theirs = (
            outcome_and_notifications(ours, statement),
            outcome_and_notifications(upstream, statement),
        )
        if (mine != theirs) != (statement in DIFFERENCES):
            unlike.append(f"{statement}\n    ours: {mine}\n    PGMQ: {theirs}")

    assert not unlike, "\n".join(unlike)


def test_something_was_heard_at_all(both):
    for connection in both:
        connection.execute(CLEAR)
        connection.execute("select pgmq.create('h')")
        connection.execute("select pgmq.enable_notify_insert('h')")

        assert outcome_and_notifications(connection, "select pgmq.send('h', '1'::jsonb)")[
            "notifications"
        ] == [("pgmq.q_h.INSERT", "")]


def test_every_difference_is_tried():
    tried = {statement for statements in SCENARIOS.values() for statement in statements}

    assert DIFFERENCES.keys() <= tried


def test_the_table_of_throttles_has_pgmqs_columns_keys_and_indexes_and_is_logged(ours, upstream):
    query = """
        select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
            pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute as a
        left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = 'pgmq.notify_insert_throttle'::regclass and a.attnum > 0
        union all
        select conname::text, contype::text, pg_get_constraintdef(oid), null
        from pg_constraint
        where conrelid = 'pgmq.notify_insert_throttle'::regclass and contype <> 'n'
        union all
        select indexname::text, indexdef, null, null from pg_indexes where tablename = 'notify_insert_throttle'
        order by 1, 2
    """

    mine = rows(ours, query)

    assert len(mine) == 3 + 2 + 2
    assert mine == rows(upstream, query)
    persistence = (
        "select relpersistence::text from pg_class where relname = 'notify_insert_throttle'"
    )
    assert (rows(ours, persistence), rows(upstream, persistence)) == ([("p",)], [("u",)])


@pytest.mark.parametrize(
    "name",
    ["enable_notify_insert", "disable_notify_insert", "update_notify_insert",
     "list_notify_insert_throttles", "notify_queue_listeners"],
)  # fmt: skip
def test_planner_and_callers_are_promised_what_pgmq_promises(ours, upstream, name):
    query = (
        "select distinct provolatile::text, proisstrict from pg_proc "
        "where pronamespace = 'pgmq'::regnamespace and proname = %s"
    )

    mine = rows(ours, query, name)

    assert len(mine) == 1
    assert mine == rows(upstream, query, name)
