"""pgq.jsontriga, and the common options, columns, errors and privileges of all capture triggers.

Also covers the internal steps. `_trigger_fire` is the trigger, and `_trigger_options` parses its
arguments. `_trigger_event` finds the key and the type of the event, or raises
an error (`_trigger_refuse`). `_trigger_change` compares the rows, formats
them (`_trigger_row`, `_trigger_statement`) and sets fields from columns. `_trigger_expressions_sql`
sets fields from expressions, and `_trigger_when` evaluates the condition.
"""

import json

import psycopg
import pytest

from support import rows, value

EVENTS = "select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_1 order by ev_id"
TRIGGERS = ("jsontriga", "logutriga", "sqltriga")


@pytest.fixture
def orders(connection, log):
    connection.execute(
        """
        create table orders (id int primary key, total numeric, paid bool, note text);
        create trigger to_log after insert or update or delete on orders
            for each row execute function pgq.jsontriga('changes');
        create trigger to_log_truncate after truncate on orders
            for each statement execute function pgq.jsontriga('changes')
        """
    )


def capture(connection, trigger, *options, table="orders", when="after"):
    arguments = ", ".join("'" + option.replace("'", "''") + "'" for option in ("changes", *options))
    connection.execute(
        f"create or replace trigger to_log {when} insert or update or delete on {table} "
        f"for each row execute function pgq.{trigger}({arguments})"
    )


def refused(connection, statement):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    assert caught.value.diag.message_hint
    return caught.value.sqlstate, caught.value.diag.message_primary


def test_each_kind_of_change_is_an_event(connection, orders):
    connection.execute("insert into orders values (1, 9.50, true, null)")
    connection.execute("update orders set note = 'a \"b\"'")
    connection.execute("delete from orders")
    connection.execute("truncate orders")

    head = '"table":["public","orders"],"pkey":["id"]}'
    row = '{"id":1,"total":"9.50","paid":true,"note":%s}'
    assert rows(connection, EVENTS) == [
        ('{"op":"INSERT",' + head, row % "null", "public.orders", None),
        ('{"op":"UPDATE",' + head, row % '"a \\"b\\""', "public.orders", None),
        ('{"op":"DELETE",' + head, row % '"a \\"b\\""', "public.orders", None),
        ('{"op":"TRUNCATE",' + head, "{}", "public.orders", None),
    ]


def test_dates_and_whole_numbers_are_native_in_any_session(connection, log):
    connection.execute(
        "create table orders (id bigint primary key, day date, at timestamptz, local timestamp, n int2[])"
    )
    capture(connection, "jsontriga")
    connection.execute("set timezone = 'Asia/Kolkata'; set datestyle = 'SQL, DMY'")
    connection.execute(
        "insert into orders values "
        "(9223372036854775807, '03/02/2020', '2020-02-03 04:05:06.7+00', 'infinity', '{1,null}')"
    )

    assert rows(connection, EVENTS)[0][1] == (
        '{"id":9223372036854775807,"day":"2020-02-03","at":"2020-02-03T09:35:06.7+05:30",'
        '"local":"infinity","n":"{1,NULL}"}'
    )


def test_every_text_comes_back_from_the_json(connection, orders):
    texts = [
        "",
        '"',
        "\\",
        '""',
        '\\"',
        "(,)",
        "a,b",
        " x ",
        "NULL",
        "%s %I",
        "\t\n\r\x01",
        "é✓🙂",
        "x" * 100_000,
    ]
    for number, text in enumerate(texts):
        connection.execute("insert into orders values (%s, null, null, %s)", (number, text))

    assert [json.loads(data)["note"] for _type, data, *_ in rows(connection, EVENTS)] == texts


def test_odd_names_of_tables_and_columns(connection, log):
    connection.execute('create table "or,d\'e""rs" ("I d" int primary key, "%s" int, "a\\b" int)')
    capture(connection, "jsontriga", table='"or,d\'e""rs"')
    connection.execute('insert into "or,d\'e""rs" values (1, 2, 3)')

    ((kind, data, table, _),) = rows(connection, EVENTS)
    assert json.loads(kind)["table"] == ["public", "or,d'e\"rs"]
    assert json.loads(kind)["pkey"] == ["I d"]
    assert data == '{"I d":1,"%s":2,"a\\\\b":3}'
    assert table == "public.or,d'e\"rs"


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_table_may_change_in_the_middle_of_a_session(connection, orders, trigger):
    capture(connection, trigger, "backup")
    connection.execute("insert into orders values (1)")
    connection.execute("alter table orders drop note; alter table orders rename id to number")
    connection.execute("alter table orders add column state text default 'new'")
    connection.execute("update orders set state = 'old', total = 5 where number = 1")

    kind, data, _, backup = rows(connection, EVENTS)[1]
    assert "number" in kind + data
    assert "state" in data
    assert "note" not in data
    assert "new" in backup


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_key_that_changes_is_refused(connection, orders, trigger):
    connection.execute("insert into orders values (1)")
    capture(connection, trigger, "ignore=total")

    assert refused(connection, "update orders set total = 1, paid = true, id = 2") == (
        "PQ007",
        "primary key update not allowed",
    )


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_key_written_otherwise_is_the_same_key(connection, log, trigger):
    connection.execute("create table orders (total numeric primary key)")
    capture(connection, trigger)
    connection.execute("insert into orders values (1.0)")
    connection.execute("update orders set total = 1.00")

    assert "1.00" in rows(connection, EVENTS)[1][1]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_type_without_equality_can_be_a_key(connection, log, trigger):
    connection.execute("create table orders (doc json, note text)")
    capture(connection, trigger, "pkey=doc")
    connection.execute("insert into orders values ('{}')")
    connection.execute("update orders set note = 'x'")

    assert len(rows(connection, EVENTS)) == 2
    assert refused(connection, "update orders set doc = '{ }'") == (
        "PQ007",
        "primary key update not allowed",
    )


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_included_columns_are_no_part_of_the_key(connection, log, trigger):
    connection.execute("create table orders (id int, note text, primary key (id) include (note))")
    capture(connection, trigger)
    connection.execute("insert into orders values (1, 'x')")
    connection.execute("update orders set note = 'y'")

    assert len(rows(connection, EVENTS)) == 2


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_an_update_of_ignored_columns_alone_makes_no_event(connection, orders, trigger):
    capture(connection, trigger, "ignore=note")
    connection.execute("insert into orders values (1, 1, false, 'secret')")
    connection.execute("update orders set note = 'other secret'")
    connection.execute("update orders set note = 'third secret', paid = true")
    connection.execute("update orders set paid = paid")

    events = rows(connection, EVENTS)
    assert len(events) == 3
    assert "secret" not in str(events)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_skip_makes_the_event_and_not_the_change(connection, orders, trigger):
    connection.execute("drop trigger to_log on orders")
    capture(connection, trigger, "SKIP", when="before")
    connection.execute("insert into orders values (1)")

    assert len(rows(connection, EVENTS)) == 1
    assert value(connection, "select count(*) from orders") == 0


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_trigger_before_the_change_lets_it_pass(connection, orders, trigger):
    connection.execute("drop trigger to_log on orders")
    capture(connection, trigger, when="before")
    connection.execute("insert into orders values (1)")
    connection.execute("update orders set total = 5")
    assert rows(connection, "select id, total from orders") == [(1, 5)]

    connection.execute("delete from orders")
    assert rows(connection, "select id, total from orders") == []
    assert len(rows(connection, EVENTS)) == 3


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_deny_refuses_the_change(connection, orders, trigger):
    capture(connection, trigger, "deny")

    assert refused(connection, "insert into orders values (1)") == (
        "PQ007",
        "Table 'public.orders' to queue 'changes': change not allowed (INSERT)",
    )


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_nothing_happens_under_the_local_replication_role(connection, orders, trigger):
    capture(connection, trigger, "deny")
    connection.execute("set session_replication_role = local")
    connection.execute("insert into orders values (1)")

    assert rows(connection, EVENTS) == []


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_expressions_set_fields_and_decide(connection, orders, trigger):
    capture(
        connection,
        trigger,
        "when=id > 1",
        "ev_type='T' || r.id",
        "ev_data=paid",
        "ev_extra2=(note)",
        "ev_extra1=null",
    )
    connection.execute("insert into orders values (1, 2, true, 'x'), (2, 2, true, 'x')")

    assert rows(connection, EVENTS) == [("T2", "t", None, "x")]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("when=note = ''", "when= should not be NULL"),
        ("when=id", "when= query result must be boolean, got=23"),
    ],
)
def test_a_condition_is_true_or_false(connection, orders, expression, problem):
    capture(connection, "jsontriga", expression)

    assert refused(connection, "insert into orders values (1)") == ("PQ007", problem)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_magic_columns_are_fields_and_expressions_count_for_more(connection, log, trigger):
    connection.execute(
        "create table orders (id int primary key, _pgq_ev_type text, _pgq_ev_data text, _pgq_ev_extra2 text)"
    )
    capture(connection, trigger, "ev_extra2='from the trigger'")
    connection.execute("insert into orders values (1, 'kind', null, 'from the row')")

    assert rows(connection, EVENTS) == [("kind", None, "public.orders", "from the trigger")]


def test_an_unknown_magic_column_is_an_error(connection, orders):
    connection.execute("alter table orders add _pgq_ev_other text")

    assert refused(connection, "insert into orders values (1)") == (
        "PQ007",
        "Unknown magic column: _pgq_ev_other",
    )


@pytest.mark.parametrize("option", ["skip", "ignore", "backup=", "ev_extra5=1", "SKIP "])
def test_unknown_option_is_an_error(connection, orders, option):
    capture(connection, "jsontriga", option)

    assert refused(connection, "insert into orders values (1)") == (
        "PQ007",
        "bad param to pgq trigger",
    )


def test_an_update_without_a_key_is_an_error(connection, orders):
    connection.execute("insert into orders values (1)")
    connection.execute("alter table orders drop constraint orders_pkey")

    assert refused(connection, "update orders set total = 1") == (
        "PQ007",
        "Update/Delete on table without pkey",
    )


def test_events_go_through_the_insert_event_that_is_there(connection, orders):
    connection.execute(
        """
        create or replace function pgq.insert_event(
            queue_name text, ev_type text, ev_data text,
            ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
        ) returns bigint language plpgsql as
        $$begin raise exception 'event for %: %', queue_name, ev_data; end$$
        """
    )
    with pytest.raises(psycopg.errors.RaiseException, match="event for changes: {}"):
        connection.execute("truncate orders")


def test_writers_need_the_right_to_insert_events(connection, database, orders, role):
    connection.execute(f"grant insert on orders to {role}")
    signature = "pgq.insert_event(text, text, text, text, text, text, text)"
    with psycopg.connect(database.url, user=role, autocommit=True) as writer:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="insert_event"):
            writer.execute("insert into orders values (1)")
        connection.execute(f"grant execute on function {signature} to {role}")
        writer.execute("insert into orders values (1)")

    assert len(rows(connection, EVENTS)) == 1
    connection.execute(f"revoke all on function {signature} from {role}")
    connection.execute(f"revoke all on orders from {role}")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_expressions_run_as_the_writer_and_in_the_writers_search_path(
    connection, database, orders, role, trigger
):
    connection.execute("create schema tools")
    connection.execute(
        "create function tools.who() returns text language sql as $$select current_user::text$$"
    )
    capture(connection, trigger, "ev_extra2=who()")
    connection.execute(f"grant usage on schema tools to {role}; grant insert on orders to {role}")
    connection.execute(f"grant sluice_writer to {role}")
    with psycopg.connect(database.url, user=role, autocommit=True) as writer:
        with pytest.raises(psycopg.errors.UndefinedFunction):
            writer.execute("insert into orders values (1)")
        writer.execute("set search_path = public, tools")
        writer.execute("insert into orders values (1)")

    assert [extra2 for *_, extra2 in rows(connection, EVENTS)] == [role]
    connection.execute(f"revoke all on schema tools from {role}; revoke all on orders from {role}")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_operators_in_the_writers_search_path_change_nothing(connection, orders, trigger):
    capture(connection, trigger, "ignore=note", "when=true", "ev_extra2=paid")
    connection.execute(
        """
        create schema evil;
        create function evil.no(anyelement, anyelement) returns bool language plpgsql as
            $$begin raise exception 'evil'; end$$;
        create function evil.no(text, text) returns bool language plpgsql as
            $$begin raise exception 'evil'; end$$;
        create operator evil.= (function = evil.no, leftarg = anyelement, rightarg = anyelement);
        create operator evil.= (function = evil.no, leftarg = text, rightarg = text);
        create operator evil.<> (function = evil.no, leftarg = text, rightarg = text);
        create function evil.format(text, text) returns text language plpgsql as
            $$begin raise exception 'evil'; end$$;
        set search_path = evil, pg_catalog, public
        """
    )
    connection.execute("insert into orders values (1)")
    connection.execute("update orders set total = 2")

    assert len(rows(connection, EVENTS)) == 2
