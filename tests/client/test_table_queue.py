"""Work queues on plain tables; test_work_queue.py covers the common behaviour of both backends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgsluice import TableQueue, WorkQueue, schema
from pgsluice.client.calls import tables
from pgsluice.errors import (
    ArgumentError,
    PrivilegeError,
    QueueNameError,
    SchemaError,
    ServerError,
)
from support import rows, value, wait_for_lock
from support.site_settings import IS_ODD

FUNCTIONS = """
select n.nspname || '.' || p.proname from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
"""
# Tables, columns and indexes of a queue with privileges and definitions, without its name.
STRUCTURE = """
select 'table', replace(c.relname, %(name)s, ''), c.relkind, c.relpersistence,
    (select array_agg(replace(a::text, u.usename, 'owner') order by a::text) from unnest(c.relacl) as a), null
from pg_class as c cross join (select current_user as usename) as u
where c.relnamespace = 'pgmq'::regnamespace and c.relname ~ (%(name)s || '(_|$)')
union all
select 'column', replace(c.relname || '.' || a.attname, %(name)s, ''), a.attidentity, a.attnotnull::text::"char",
    (select array_agg(acl::text order by acl::text) from unnest(a.attacl) as acl), format_type(a.atttypid, a.atttypmod) || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0
left join pg_attrdef as d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relnamespace = 'pgmq'::regnamespace and c.relkind = 'r' and c.relname ~ (%(name)s || '$')
union all
select 'index', replace(i.indexname, %(name)s, ''), null, null, null, replace(i.indexdef, %(name)s, '')
from pg_indexes as i where i.schemaname = 'pgmq' and i.indexname ~ (%(name)s || '(_|$)')
order by 1, 2
"""


@pytest.fixture
def database(empty_database):
    """A database with the tables and without functions."""
    with empty_database.connect() as connection:
        schema.install_tables(connection)
    return empty_database


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


@pytest.fixture
def queue(connection):
    """A client on an autocommit connection, with a queue named orders."""
    queue = TableQueue(connection)
    queue.create("orders")
    return queue


def ids(messages):
    return [message.msg_id for message in messages]


def test_no_function_is_installed_and_none_is_needed(connection, queue):
    assert rows(connection, FUNCTIONS) == []

    queue.send_batch("orders", [1, 2, 3])
    (message,) = queue.read("orders", 30)
    assert queue.archive("orders", message.msg_id)
    assert ids(queue.pop("orders", 5)) == [2, 3]
    assert queue.drop_queue("orders")


def test_a_role_that_may_not_create_functions_makes_a_queue_and_others_use_it(
    database, connection, role
):
    connection.execute(f"grant sluice_admin to {role}")
    connection.execute("revoke usage on language plpgsql, sql from public")
    with database.connect(user=role) as own:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute("create function pgmq.f() returns int language sql as 'select 1'")
        queue = TableQueue(own)
        queue.create("orders")
        queue.send("orders", 1)
        assert ids(queue.read("orders", 30)) == [1]
        assert queue.purge_queue("orders") == 1
        assert queue.drop_queue("orders") is True


@pytest.mark.slow
def test_a_queue_is_made_of_the_same_as_by_the_functions(connection, queue):
    schema.install(connection)
    connection.execute("select pgmq.create('others')")

    made = {
        name: connection.execute(STRUCTURE, {"name": name}).fetchall()
        for name in ("orders", "others")
    }

    assert len(made["orders"]) > 20
    assert made["orders"] == made["others"]


@pytest.mark.slow
@pytest.mark.parametrize("member", ["sluice_writer", "sluice_reader", "sluice_monitor"])
def test_the_roles_may_do_on_it_what_they_may_on_any_queue(
    database, connection, queue, role, member
):
    queue.send("orders", 1)
    connection.execute(f"grant {member} to {role}")
    calls = {
        "sluice_writer": lambda own: own.send("orders", 2),
        "sluice_reader": lambda own: own.archive("orders", own.read("orders", 30)[0].msg_id),
        "sluice_monitor": lambda own: own.metrics("orders"),
    }

    with database.connect(user=role) as own:
        for needed, call in calls.items():
            if needed == member or (needed, member) == ("sluice_monitor", "sluice_reader"):
                assert call(TableQueue(own))
            else:
                with pytest.raises(PrivilegeError):
                    call(TableQueue(own))


@pytest.mark.slow
def test_a_full_installation_over_it_keeps_the_queues_and_both_clients_work_on_them(
    connection, queue
):
    queue.send_batch("orders", ["a", "b", "c"], headers=[{"h": 1}, None, None])
    queue.read("orders", 60)

    schema.install(connection)

    assert schema.verify(connection) == ()
    work = WorkQueue(connection)
    assert [info.queue_name for info in work.list_queues()] == ["orders"]
    assert ids(work.read("orders", 60)) == [2]
    assert ids(queue.read("orders", 60)) == [3]
    assert ids(work.set_vt_batch("orders", [1, 2], 0)) == [1, 2]
    assert ids(queue.read("orders", 60, 5)) == [1, 2]
    assert work.metrics("orders").queue_length == queue.metrics("orders").queue_length == 3


def test_queue_is_created_and_dropped_by_the_functions_where_installed(connection, queue):
    schema.install(connection)
    work = WorkQueue(connection)

    queue.create("others")
    work.send("others", 1)
    assert ids(work.read("others", 30)) == [1]
    assert queue.drop_queue("others") is True
    assert queue.drop_queue("orders") is True
    assert work.drop_queue("orders") is False
    assert rows(connection, "select proname from pg_proc where proname ~ '^q_'") == []


def test_installing_the_tables_twice_does_no_harm_and_over_the_functions_it_is_refused(connection):
    before = schema.fingerprint(connection)
    assert schema.install_tables(connection) == ()
    assert schema.fingerprint(connection) == before

    schema.install(connection)

    with pytest.raises(SchemaError, match="pgsluice schema upgrade"):
        schema.install_tables(connection)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "what"),
    [
        (0, "deferred"),
        (100_000, "deferred"),
        (100_000, "ready"),
        (100_000, "due"),
    ],
)
@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("function", [tables.read, tables.pop], ids=["read", "pop"])
def test_the_hot_statements_are_served_by_their_indexes(
    connection, queue, size, what, plans, function
):
    columns = {
        "deferred": "now() + interval '1 day', now()",
        "ready": "now(), now()",
        "due": "now() - interval '1 s', now() - interval '1 day'",
    }
    connection.execute(
        f"insert into pgmq.q_orders (vt, enqueued_at) select {columns[what]} from generate_series(1, %s)",
        [size],
    )
    queue.send("orders", 1)
    call = function("orders", 30, 1) if function is tables.read else function("orders", 1)
    statement = call.sql
    for number in range(1, len(call.parameters) + 1):
        statement = statement.replace("%s::integer", f"${number}", 1)
    types = ", ".join(["integer"] * len(call.parameters))
    connection.prepare_threshold = None
    connection.execute(f"set plan_cache_mode = {plans}")
    connection.execute(f"prepare hot ({types}) as {statement}")
    values = ", ".join(map(str, call.parameters))

    plan = "\n".join(
        line for (line,) in rows(connection, f"explain (analyze, costs off) execute hot ({values})")
    )

    for index in ("q_orders_ready_idx", "q_orders_vt_idx", "q_orders_pkey"):
        assert index in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "Rows Removed by Filter" not in plan, plan


def test_a_statement_is_prepared_once_for_a_queue_and_its_plan_is_kept(connection, queue):
    for number in range(20):
        queue.send("orders", number)
        (message,) = queue.read("orders", 30)
        queue.delete("orders", message.msg_id)

    prepared = rows(
        connection,
        "select left(ltrim(statement, E'\\n'), 6), generic_plans > 5 from pg_prepared_statements "
        "where statement ~ 'q_orders' order by 1",
    )
    assert prepared == [("delete", True), ("insert", True), ("with g", True)]


def test_due_messages_come_among_the_ready_ones_by_id(queue):
    queue.send_batch("orders", list(range(1, 7)))
    queue.set_vt_batch("orders", [2, 5], 0)

    assert ids(queue.read("orders", 30)) == [1]
    assert ids(queue.read("orders", 30, 3)) == [2, 3, 4]
    assert ids(queue.pop("orders", 9)) == [5, 6]


def test_more_than_a_thousand_due_messages_are_all_delivered_once(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at) select now() - n * interval '1 ms', now() - interval '1 h' "
        "from generate_series(1, 3500) as n"
    )

    delivered = []
    while batch := ids(queue.read("orders", 30, 700)):
        assert batch == sorted(batch)
        delivered += batch

    assert sorted(delivered) == list(range(1, 3501))


def test_two_readers_never_get_the_same_message_and_never_wait(database, queue):
    queue.send_batch("orders", list(range(1, 7)))
    queue.set_vt_batch("orders", [1, 2, 3], 0)
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")

        assert ids(TableQueue(first).read("orders", 30, 2)) == [1, 2]
        # The first also keeps its locks on the ready messages that it examined, until it commits.
        assert ids(TableQueue(second).read("orders", 30, 9)) == [3, 6]
        first.commit()
        assert ids(TableQueue(second).read("orders", 30, 9)) == [4, 5]


def test_an_empty_condition_is_none(queue):
    queue.send_batch("orders", [None, [1], {"k": 1}])

    assert ids(queue.read("orders", 30, 9, conditional={})) == [1, 2, 3]


def test_a_condition_holds_for_due_messages_too(queue):
    queue.send_batch("orders", [{"k": n} for n in range(1, 5)])
    queue.set_vt_batch("orders", [2], 0)

    assert ids(queue.read("orders", 30, 9, conditional={"k": 2})) == [2]
    assert ids(queue.read("orders", 30, 9, conditional={"k": 3})) == [3]


def test_read_ct_stays_at_the_end_of_its_range(connection, queue):
    queue.send("orders", 1)
    connection.execute("update pgmq.q_orders set read_ct = 2147483647")

    assert [message.read_ct for message in queue.read("orders", 30)] == [2147483647]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a%b", "a%sb", 'a"b', "a b", "naïve", "select", "{queue}", "a\\b", "x" * 47]
)
def test_any_name_that_the_functions_take_is_a_queue(connection, queue, name):
    queue.create(name)
    queue.create(name)

    assert queue.send(name, 1, delay=0) == 1
    assert queue.send_batch(name, [2, 3]) == [2, 3]
    assert ids(queue.read(name, 30)) == [1]
    assert queue.archive(name, 1) is True
    assert {metrics.queue_name: metrics.queue_length for metrics in queue.metrics_all()} == {
        "orders": 0,
        name: 2,
    }
    schema.install(connection)
    assert ids(WorkQueue(connection).read(name, 30)) == [2]
    assert queue.drop_queue(name) is True


def test_a_role_without_rights_cannot_block_creation_and_drop(database, queue, role):
    key = "select pg_advisory_lock(hashtextextended(%s, 0))"
    with database.connect(user=role) as plain, database.connect() as own:
        for name in ("orders", "others"):
            plain.execute(key, (f"pgmq.queue_{name}",))
        with pytest.raises(psycopg.errors.InsufficientPrivilege), plain.transaction():
            plain.execute("lock table pgmq.meta in row exclusive mode")
        own.execute("set lock_timeout = '2s'")

        TableQueue(own).create("others")
        assert TableQueue(own).drop_queue("orders") is True


def test_a_second_creation_of_a_queue_waits_for_the_first(database, connection):
    with (
        database.connect(autocommit=False) as first,
        database.connect() as second,
        ThreadPoolExecutor(1) as thread,
    ):
        TableQueue(first).create("orders")
        waiting = thread.submit(TableQueue(second).create, "ORDERS")
        wait_for_lock(connection, second)
        first.commit()

        with pytest.raises(QueueNameError, match="would share its table with queue 'orders'"):
            waiting.result(30)


def test_upper_and_lower_case_name_one_queue(queue):
    assert queue.send("ORDERS", 1) == 1
    assert ids(queue.read("Orders", 30)) == [1]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("a;b", ServerError, "queue name contains invalid characters"),
        ("a'b", ServerError, "queue name contains invalid characters"),
        ("a--b", ServerError, "queue name contains invalid characters"),
        ("a$b", ServerError, "queue name contains invalid characters"),
        ("x" * 48, ServerError, "queue name is too long, maximum length is 47 characters"),
        ("ü" * 24, ServerError, "queue name is too long, maximum length is 47 characters"),
        ("Über", QueueNameError, "upper case letters outside ASCII"),
        ("", QueueNameError, "queue name is empty"),
        ("a\x00b", ArgumentError, "NUL character or a lone surrogate"),
        ("a\ud800", ArgumentError, "NUL character or a lone surrogate"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_as_the_functions_do(
    connection, queue, name, kind, words
):
    with pytest.raises(kind, match=words):
        queue.create(name)

    assert [info.queue_name for info in queue.list_queues()] == ["orders"]


def test_metrics_of_all_queues_leave_out_one_without_its_table(connection, queue):
    queue.create("broken")
    connection.execute("drop table pgmq.q_broken")

    assert [metrics.queue_name for metrics in queue.metrics_all()] == ["orders"]


def test_a_creation_that_fails_leaves_nothing(connection, queue):
    connection.execute("alter table pgmq.meta add check (queue_name <> 'other')")

    with pytest.raises(ServerError):
        queue.create("other")

    assert value(connection, "select to_regclass('pgmq.q_other')") is None


@pytest.mark.skipif(IS_ODD, reason="lock_timeout = 500ms ends a wait for the others")
def test_eight_that_create_one_queue_at_once_all_succeed(database, connection):
    start, errors = threading.Barrier(8), []

    def create():
        try:
            with database.connect() as own:
                start.wait(30)
                TableQueue(own).create("orders")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    assert value(connection, "select count(*) from pgmq.meta") == 1
