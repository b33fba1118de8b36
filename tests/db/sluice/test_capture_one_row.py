"""Statements that change one row: sluice.capture_changes appends their events by static statements.

Each table here is captured twice, into a log by these and into another by the general, dynamic statements, which an option
requires. The events are equal.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import replace_in, rows, wait_for_lock

TRAP = """
create type mood as enum ('sad', 'fine');
create function mood_json(mood) returns json language plpgsql as $$ begin raise exception 'trapped as %', current_user; end; $$;
create cast (mood as json) with function mood_json(mood)
"""
CAPTURE = "sluice.capture_changes()"
SHAPE = "sluice._read_shape()"


@pytest.fixture
def orders(connection):
    connection.execute(
        """create table orders (
            id integer, gone text, total numeric, paid boolean, raw bytea, at timestamptz, tags text[], more jsonb,
            primary key (id)
        )"""
    )
    for log, options in (("one", "{}"), ("all", '{"before": true}')):
        connection.execute("select pgq.create_queue(%s)", (log,))
        connection.execute("select sluice.capture('orders', %s, %s::jsonb)", (log, options))
    connection.execute("set timezone = 'Asia/Tokyo'")
    return "orders"


def events(connection, queue_id):
    """Return the events of a log without their times."""
    found = rows(
        connection,
        f"select ev_type, ev_data, ev_extra1, ev_extra2, ev_txid::text from pgq.event_{queue_id} order by ev_id",
    )
    return [(op, re.sub(r'"ts_ms" : \d+', "", data), *rest) for op, data, *rest in found]


def change(connection, key, table="orders"):
    connection.execute(
        f"insert into {table} (id, total, paid, raw, at, tags, more) values ({key}, 1.50, true, '\\xff', now(), '{{a}}', '{{}}')"
    )
    connection.execute(f"update {table} set total = total + 1 where id = {key}")
    connection.execute(f"update {table} set id = -id where id = {key}")
    connection.execute(f"update {table} set total = 0 where false")
    connection.execute(f"delete from {table} where id = -{key}")


def test_one_row_has_the_event_that_many_rows_have(connection, orders):
    change(connection, 1)

    assert [op for op, *_ in events(connection, 1)] == ["c", "u", "u", "d"]
    assert events(connection, 1) == events(connection, 2)


ALTERATIONS = [
    "alter table orders add note text default 'n'",
    "alter table orders drop gone",
    "alter table orders rename id to number; alter table orders add id integer",
    "alter table orders rename total to sum; alter table orders add total numeric",
    "alter table orders drop constraint orders_pkey",
    "alter table orders drop constraint orders_pkey; "
    "alter table orders add primary key (id) deferrable",
    "alter table orders drop constraint orders_pkey; "
    "create unique index orders_more on orders (paid, id); "
    "alter table orders alter paid set not null; "
    "alter table orders add primary key using index orders_more",
    "alter table orders alter paid type text",
    TRAP + "; alter table orders add feeling mood default 'sad'",
    "create domain amount as numeric; alter table orders alter total type amount",
    "create table parent (like orders) partition by range (id); "
    "alter table parent attach partition orders default",
    "create schema elsewhere; alter table orders set schema elsewhere; set search_path = elsewhere",
]


def check_alteration(database, connection, alteration):
    with database.connect() as writer:
        for key in range(1, 8):  # plans are cached
            change(writer, key)
        connection.execute(alteration)
        if "elsewhere" in alteration:
            writer.execute("set search_path = elsewhere")
        if "number" in alteration:
            writer.execute("alter table orders alter number set default 100")
        change(writer, 9)

    assert len(events(connection, 1)) == 32
    assert events(connection, 1) == events(connection, 2)


@pytest.mark.parametrize("alteration", ALTERATIONS, ids=lambda text: text[:30].strip())
def test_a_changed_table_is_captured_as_it_is_now(database, connection, orders, alteration):
    check_alteration(database, connection, alteration)


ODD_NAME = 'a "quoted\\ Name'


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def check_rename(database, connection, statement, name):
    with database.connect() as writer:
        for key in range(1, 8):  # plans are cached
            change(writer, key)
        connection.execute(statement.format(quoted(name)))
        table = f"public.{quoted(name)}" if "table" in statement else f"{quoted(name)}.orders"
        change(writer, 9, table)

    assert len(events(connection, 1)) == 32
    assert events(connection, 1) == events(connection, 2)


@pytest.mark.parametrize("what", ["table", "schema"])
def test_a_renamed_table_or_schema_has_its_new_name(database, connection, orders, what):
    from_name = "table orders" if what == "table" else "schema public"
    check_rename(database, connection, f"alter {from_name} rename to {{}}", ODD_NAME)


def check_rename_during_a_statement(database, connection):
    """Rename the schema after an update took its snapshot, and before its trigger runs."""
    change(connection, 1)
    connection.execute("insert into orders (id) values (2)")
    with database.connect() as writer, database.connect() as holder:
        for key in range(3, 10):  # plans are cached
            change(writer, key)
        with ThreadPoolExecutor() as pool, holder.transaction():
            holder.execute("select from orders where id = 2 for update")
            updated = pool.submit(writer.execute, "update orders set total = 1 where id = 2")
            wait_for_lock(connection, writer)
            connection.execute("alter schema public rename to elsewhere")
        updated.result()
        writer.execute("update elsewhere.orders set total = 2")

    assert events(connection, 1) == events(connection, 2)


def test_a_schema_renamed_during_a_statement_has_its_new_name(database, connection, orders):
    check_rename_during_a_statement(database, connection)


def check_options(_database, connection):
    """Changes of one row are written as the options of their trigger say."""
    connection.execute("select pgq.create_queue('no before')")
    connection.execute("""select sluice.capture('orders', 'no before', '{"before": false}')""")
    change(connection, 1)

    assert events(connection, 3) != events(connection, 1)


def test_options_apply_to_one_row(database, connection, orders):
    check_options(database, connection)


def check_log_name(_database, connection):
    connection.execute("select sluice.drop_capture('orders', 'one')")
    connection.execute("select sluice.drop_capture('orders', 'all')")
    connection.execute("select pgq.create_queue(%s)", (ODD_NAME + "é€",))
    connection.execute("select sluice.capture('orders', %s)", (ODD_NAME + "é€",))
    replace_in(connection, CAPTURE, "'insert into pgq.%I", "'broken into pgq.%I")
    change(connection, 1)

    assert len(events(connection, 3)) == 4


def test_the_name_of_a_log_may_have_any_character(database, connection, orders):
    check_log_name(database, connection)


def check_several_rows(_database, connection):
    connection.execute("insert into orders (id) values (1), (2), (3)")
    connection.execute("update orders set total = id")
    connection.execute("delete from orders")

    assert len(events(connection, 1)) == 9
    assert events(connection, 1) == events(connection, 2)


def test_each_of_several_rows_has_an_event(database, connection, orders):
    check_several_rows(database, connection)


def check_copy_that_waits(database, connection):
    """A COPY takes its snapshot before it waits for the lock, and does not see in it what changed meanwhile."""
    connection.execute(TRAP)
    with database.connect() as writer, database.connect() as holder:

        def copy():
            with writer.cursor().copy("copy orders (id) from stdin") as rows_in:
                rows_in.write("9\n")

        with ThreadPoolExecutor() as pool:
            with holder.transaction():
                holder.execute("lock table orders in access exclusive mode")
                copied = pool.submit(copy)
                wait_for_lock(connection, writer)
                holder.execute("alter table orders add feeling mood default 'sad'")
            copied.result()

    assert [op for op, *_ in events(connection, 1)] == ["c"]
    assert events(connection, 1) == events(connection, 2)


def test_a_column_added_while_a_copy_waits_runs_no_code_of_its_type(database, connection, orders):
    check_copy_that_waits(database, connection)


def check_older_snapshot(database, connection):
    connection.execute("insert into orders (id) values (1)")
    with database.connect() as writer:
        writer.execute("set default_transaction_isolation = 'repeatable read'")
        with writer.transaction():
            writer.execute("select 1")
            connection.execute(TRAP)
            connection.execute("alter table orders add feeling mood default 'sad'")
            writer.execute("update orders set total = 1")

    assert [op for op, *_ in events(connection, 1)] == ["c", "u"]
    assert events(connection, 1) == events(connection, 2)


def test_a_column_that_an_older_snapshot_does_not_show_runs_no_code_of_its_type(
    database, connection, orders
):
    check_older_snapshot(database, connection)


def test_the_catalog_is_read_once_per_plan(connection, orders):
    connection.execute("set track_functions = 'pl'")

    for key in range(1, 9):
        change(connection, key)
    connection.execute("select pg_stat_force_next_flush()")

    calls = dict(
        rows(
            connection,
            "select funcname, calls from pg_stat_user_functions where funcname in ('capture_changes', '_planned_shape')",
        )
    )
    # One plan for each operation of both captures; the planner meets the call up to four times in each.
    assert calls["capture_changes"] == 2 * 8 * 5
    assert 6 <= calls["_planned_shape"] <= 24


def test_only_statements_of_several_rows_are_dynamic(connection, orders):
    connection.execute("select sluice.drop_capture('orders', 'all')")
    replace_in(connection, "sluice.capture_changes()", "'insert into pgq.%I", "'broken into pgq.%I")

    change(connection, 1)

    assert len(events(connection, 1)) == 4
    with pytest.raises(psycopg.errors.SyntaxError, match="broken"):
        connection.execute("insert into orders (id) values (1), (2)")


def check_closed_log(_database, connection):
    connection.execute("select sluice.drop_capture('orders', 'all')")
    connection.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("insert into orders (id) values (1)")
    assert caught.value.sqlstate == "PQ004"
    connection.execute("update orders set total = 0 where false")

    connection.execute("alter table orders enable always trigger sluice_capture_insert_1")
    connection.execute("set session_replication_role = replica")
    connection.execute("insert into orders (id) values (1)")
    assert [op for op, *_ in events(connection, 1)] == ["c"]


def test_a_closed_log_refuses_and_takes_changes_of_replication(database, connection, orders):
    check_closed_log(database, connection)


def after(what):
    """The check of the only alteration with this text."""
    (alteration,) = [alteration for alteration in ALTERATIONS if what in alteration]
    return lambda database, connection: check_alteration(database, connection, alteration)


INSERT_BRANCH = """            if tg_op = 'INSERT' then
                select q.queue_id, q.queue_cur_table, s.shape,
"""
BEFORE_SOURCE = """                    case when s.shape is not null then array(
                        select case when pg_column_size(n.*) <= 262144 then concat(
                            '{"op" : "c", "before" : null, "after" : ', row_to_json(n.*), ', "source" : ',
                            s.shape[1]"""
AFTER_ROWS = """                        limit 2
                    ) end
                into v_queue_id, v_segment, v_planned, v_events
                from (values (sluice._planned_shape())) as s (shape)
                """
# Bug → the check that finds it, the function, a part of its source, and the bug that replaces it.
PLANTED = {
    # The plan of a statement without a transition table does not depend on the captured table.
    "the shape of the first call is kept": (
        after("rename id"),
        CAPTURE,
        INSERT_BRANCH + BEFORE_SOURCE,
        "            if tg_op = 'INSERT' then\n"
        "                select s.shape[1] as source into v_target\n"
        "                from (values (sluice._planned_shape())) as s (shape);\n"
        + INSERT_BRANCH.partition("\n")[2]
        + BEFORE_SOURCE.replace("s.shape[1]", "v_target.source"),
    ),
    "the catalog is read in the snapshot of a COPY that waited": (
        check_copy_that_waits,
        SHAPE,
        "LANGUAGE plpgsql\n",
        "LANGUAGE plpgsql\n STABLE\n",
    ),
    "types that are not built in are static": (
        after("add feeling"),
        SHAPE,
        "a.atttypid < 16384",
        "true",
    ),
    "an older snapshot uses a plan": (
        check_older_snapshot,
        CAPTURE,
        "current_setting('transaction_isolation') = 'read committed'",
        "true",
    ),
    "a closed log takes events": (
        check_closed_log,
        CAPTURE,
        "from new_rows as n\n"
        + AFTER_ROWS
        + "left join pgq.queue as q on q.queue_name = s.shape[3] "
        "and not q.queue_disable_insert;\n            elsif",
        "from new_rows as n\n"
        + AFTER_ROWS
        + "left join pgq.queue as q on q.queue_name = s.shape[3];\n"
        "            elsif",
    ),
    "a closed log refuses statements that change nothing": (
        check_closed_log,
        CAPTURE,
        "cross join new_rows as n\n" + AFTER_ROWS + "left join",
        "cross join new_rows as n\n" + AFTER_ROWS + "join",
    ),
    "the first of several rows is the only one": (
        check_several_rows,
        CAPTURE,
        "from new_rows as n\n                        limit 2",
        "from new_rows as n\n                        limit 1",
    ),
    "the catalog is read in the snapshot of an update that waited": (
        check_rename_during_a_statement,
        SHAPE,
        "LANGUAGE plpgsql\n",
        "LANGUAGE plpgsql\n STABLE\n",
    ),
    "options are ignored": (check_options, SHAPE, "is distinct from '{}'", "is null"),
    "a table that becomes a partition keeps its own name": (
        after("attach partition"),
        SHAPE,
        "pg_partition_root(v_table) is not null",
        "false",
    ),
    "bytes of the log's name are escaped": (
        check_log_name,
        SHAPE,
        "convert_from(substring(v_arguments for v_log_name_bytes), getdatabaseencoding())",
        "encode(substring(v_arguments for v_log_name_bytes), 'escape')",
    ),
    "names are not escaped": (
        lambda database, connection: check_rename(
            database, connection, "alter table orders rename to {}", ODD_NAME
        ),
        SHAPE,
        "to_json(v_shape.table_name)",
        "'\"' || v_shape.table_name || '\"'",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(database, connection, orders, bug):
    check, function, old, new = PLANTED[bug]
    replace_in(connection, function, old, new)

    # Code of a type that runs raises an error: see TRAP. A closed log that takes events does not, and one that refuses
    # an empty statement does.
    errors = (
        AssertionError,
        psycopg.ProgrammingError,
        psycopg.errors.RaiseException,
        pytest.fail.Exception,
    )
    with pytest.raises(
        errors, match="^assert|^trapped|^DID NOT RAISE|^Insert into queue disallowed|^syntax error"
    ):
        check(database, connection)
