"""Statements of triggers on the table whose statement fired them: _order_nested, _begin_capture, _events_in_front."""

import json

import pytest

from support import rows
from support.capture import apply, contents, copy_of, logged

AFTER_INSERT = "create trigger {name} after insert on t for each row execute function {name}()"
BEFORE_INSERT = "create trigger {name} before insert on t for each row execute function {name}()"


def trigger(name, body, when, result="null"):
    return (
        f"create function {name}() returns trigger language plpgsql as $$ begin {body}; return {result}; end $$;"
        f"create trigger {name} {when} execute function {name}()"
    )


PATH = trigger(
    "after_row",
    "update t set path = '/root/' || new.id where id = new.id",
    "after insert on t for each row",
)
DEPTH = trigger(
    "deeper",
    "if new.note is null then update t set note = new.path where id = new.id; end if",
    "after update of path on t for each row",
)
UPSERT = trigger(
    "upsert", "delete from t where id = new.id", "before insert on t for each row", "new"
)
OTHER = "create table u (id int); " + trigger(
    "of_u",
    "update t set path = coalesce(path, '') || new.id where id = 1",
    "after insert on u for each row",
)
# Name → (schema, statements); the events, applied in order, give the table.
CASES = {
    "a row trigger updates its row": (PATH, ["insert into t values (1)"]),
    "a row trigger updates each of many rows": (
        PATH,
        ["insert into t select generate_series(1, 50)"],
    ),
    "a row trigger's update has a row trigger": (
        PATH + ";" + DEPTH,
        ["insert into t values (1), (2)"],
    ),
    "a row trigger deletes its row": (
        trigger("gone", "delete from t where id = new.id", "after insert on t for each row"),
        ["insert into t values (1), (2)"],
    ),
    "a row trigger restores a deleted row": (
        trigger("back", "insert into t values (old.id, 'back')", "after delete on t for each row"),
        ["insert into t values (1), (2)", "delete from t where id = 1"],
    ),
    "a row trigger changes the key": (
        trigger(
            "moved",
            "update t set id = id + 100 where id = new.id and id < 100",
            "after insert or update on t for each row",
        ),
        ["insert into t values (1), (2)", "update t set id = 3 where id = 101"],
    ),
    "a before trigger deletes the row that is inserted again": (
        UPSERT,
        ["insert into t values (1, 'a')", "insert into t values (1, 'b'), (2, 'c')"],
    ),
    "a before trigger deletes an equal row": (
        UPSERT,
        ["insert into t values (1, 'a')", "insert into t values (1, 'a')"],
    ),
    "before and after triggers": (
        PATH + ";" + UPSERT,
        ["insert into t values (1, 'a')", "insert into t values (1, 'b'), (2, 'c')"],
    ),
    "a before trigger updates a row of the same statement": (
        trigger(
            "mark",
            "update t set path = 'followed' where id = new.id - 1",
            "before insert on t for each row",
            "new",
        ),
        ["insert into t values (1), (2), (3)"],
    ),
    "a statement trigger before": (
        trigger("zz", "delete from t", "before insert on t for each statement"),
        ["insert into t values (1)", "insert into t values (1, 'b')"],
    ),
    "a statement trigger after": (
        trigger(
            "fill",
            "update t set path = 'f' where path is null",
            "after insert on t for each statement",
        ),
        ["insert into t values (1), (2)", "insert into t values (3)"],
    ),
    "a trigger of another table, then a statement of its own": (
        OTHER,
        [
            "insert into t values (1)",
            "begin",
            "insert into u values (1)",
            "update t set path = null",
            "insert into u values (2)",
            "update t set path = 'x'",
            "commit",
        ],
    ),
    "a savepoint that is rolled back in a trigger": (
        trigger(
            "tried",
            "begin update t set path = 'lost' where id = new.id; raise division_by_zero; "
            "exception when division_by_zero then update t set note = 'kept' where id = new.id; end",
            "after insert on t for each row",
        ),
        ["insert into t values (1), (2)"],
    ),
    "a cascade deletes": (
        "alter table t add parent int references t on delete cascade",
        [
            "insert into t (id, parent) values (1, null), (2, 1), (3, 2)",
            "delete from t where id = 1",
        ],
    ),
    "a cascade sets null": (
        "alter table t add parent int references t on delete set null on update cascade",
        [
            "insert into t (id, parent) values (1, null), (2, 1), (3, 2)",
            "update t set id = 9 where id = 2",
            "delete from t where id = 1",
        ],
    ),
    "a cascade and a row trigger": (
        "alter table t add parent int references t on update cascade;"
        + trigger(
            "note",
            "update t set note = coalesce(note, '') || old.id where id = new.id and note is distinct from coalesce(old.note, '') || old.id and old.id <> new.id",
            "after update on t for each row",
        ),
        ["insert into t (id, parent) values (1, null), (2, 1)", "update t set id = 5 where id = 1"],
    ),
    "a deferred constraint trigger": (
        "create function late() returns trigger language plpgsql as $$ begin "
        "update t set path = coalesce(path, '') || 'l' where id = new.id; return null; end $$;"
        "create constraint trigger late after insert on t deferrable initially deferred "
        "for each row execute function late()",
        ["begin", "insert into t values (1)", "update t set path = 'p'", "commit"],
    ),
    "a rule": (
        "create rule also as on insert to t do also update t set path = 'r' where id = new.id",
        ["insert into t values (1), (2)"],
    ),
    "a view with a trigger": (
        "create view v as select id, path from t;"
        + trigger(
            "through",
            "insert into t values (new.id, 'one'); update t set path = 'two' where id = new.id",
            "instead of insert on v for each row",
            "new",
        ),
        ["insert into v values (1), (2)"],
    ),
    "on conflict": (
        PATH + ";" + DEPTH,
        [
            "insert into t values (1)",
            "insert into t values (1), (2) on conflict (id) do update set path = 'again', note = null",
        ],
    ),
    "merge": (
        PATH + ";" + DEPTH,
        [
            "insert into t values (1), (3)",
            "merge into t using (values (1), (2), (3)) as s (id) on t.id = s.id "
            "when matched and t.id = 3 then delete "
            "when matched then update set path = 'again', note = null "
            "when not matched then insert (id) values (s.id)",
        ],
    ),
    "with two parts": (
        PATH,
        [
            "insert into t values (1, 'a'), (2, 'b')",
            "with gone as (delete from t where id = 1 returning id) "
            "insert into t select id, 'new' from gone",
            "with u as (update t set id = 3 where id = 2 returning id) insert into t select 2 from u",
        ],
    ),
}


def applied(events):
    """Apply events of a table without a key: a row is removed as one of its equals, and only if there is one."""
    found = []
    for op, data in events:
        envelope = json.loads(data)
        if op in ("u", "d") and envelope["before"] in found:
            found.remove(envelope["before"])
        if op in ("c", "u"):
            found.append(envelope["after"])
    return sorted(map(json.dumps, found))


@pytest.mark.parametrize("is_keyed", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("case", CASES)
def test_events_in_order_give_the_table(connection, case, is_keyed):
    setup, statements = CASES[case]
    if not is_keyed and ("conflict" in case or "cascade" in case):
        pytest.skip("needs a key")
    connection.execute(
        f"create table t (id int {'primary key' if is_keyed else ''}, path text, note text)"
    )
    connection.execute(setup)
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('t', 'changes')")
    copy_of(connection, "t")
    for statement in statements:
        connection.execute(statement)
    expected = contents(connection, "t")

    if is_keyed:
        apply(connection, logged(connection))
        assert contents(connection, "copy") == expected
    else:
        found = rows(connection, "select row_to_json(t) from t")
        assert applied(logged(connection)) == sorted(json.dumps(row) for (row,) in found)


def test_a_writer_without_rights_on_the_log_changes_a_table_by_its_triggers(connection, role):
    connection.execute("create table t (id int primary key, path text, note text)")
    connection.execute(PATH + ";" + DEPTH)
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('t', 'changes')")
    connection.execute(f"grant select, insert, update on t to {role}")
    copy_of(connection, "t")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute("insert into t values (1), (2)")
        connection.execute("update t set path = 'other'")

    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "t")
    connection.execute(f"drop owned by {role} cascade")


@pytest.mark.parametrize("changed", ["t", "low"], ids=["the table", "a partition"])
def test_row_triggers_of_a_partitioned_table_change_the_table_or_a_partition(connection, changed):
    connection.execute(
        """create table t (id int primary key, path text, note text) partition by range (id);
        create table low partition of t for values from (0) to (100);
        create table high partition of t for values from (100) to (200)"""
    )
    connection.execute(PATH.replace("update t", f"update {changed}"))
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('t', 'changes')")
    copy_of(connection, "t")
    connection.execute("insert into t values (1), (2), (102)")
    connection.execute("insert into low values (3)")
    connection.execute("update t set id = id + 100 where id = 1")

    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "t")


def test_a_disabled_trigger_before_statements_keeps_the_order_of_other_statements(connection):
    connection.execute("create table t (id int primary key, path text, note text)")
    connection.execute(OTHER)
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('t', 'changes')")
    connection.execute('alter table t disable trigger "~sluice_capture_begin_1"')
    copy_of(connection, "t")
    connection.execute("insert into t values (1)")
    with connection.transaction():
        connection.execute("insert into u values (1)")
        connection.execute("update t set path = 'last'")

    apply(connection, logged(connection))
    assert contents(connection, "copy") == contents(connection, "t")
