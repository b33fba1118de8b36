"""sluice.capture in both forms.

Also covers _require_capture_options, _require_capturable and _require_capture_key.
"""

import psycopg
import pytest

from support import rows, value


def test_one_trigger_for_each_kind_of_change_and_none_twice(connection, captured):
    connection.execute("select sluice.capture('account', 'changes')")

    assert rows(
        connection, "select tgname from pg_trigger where tgrelid = 'account'::regclass order by 1"
    ) == [
        ("sluice_capture_delete_1",),
        ("sluice_capture_insert_1",),
        ("sluice_capture_truncate_1",),
        ("sluice_capture_update_1",),
        ("~sluice_capture_begin_1",),
    ]


def test_a_table_with_an_odd_name_in_an_odd_schema(connection):
    connection.execute('create schema "Odd one"')
    connection.execute('create table "Odd one"."T.able" ("Col umn" int)')
    connection.execute("select pgq.create_queue('it''s; odd')")

    connection.execute("""select sluice.capture('"Odd one"."T.able"', 'it''s; odd')""")
    connection.execute('insert into "Odd one"."T.able" values (1)')

    assert rows(connection, "select ev_extra1, ev_data::json -> 'after' from pgq.event_1_0") == [
        ('"Odd one"."T.able"', {"Col umn": 1})
    ]


def test_an_unknown_log_is_an_error(connection):
    connection.execute("create table account (id int)")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.capture('account', 'missing')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ001",
        "event log 'missing' does not exist",
    )


def test_writers_of_the_table_need_no_rights_on_the_log(connection, captured, role):
    connection.execute(f"grant insert on account to {role}")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute("insert into account values (1, 'a')")

    assert value(connection, "select count(*) from pgq.event_1_0") == 1
    connection.execute(f"revoke insert on account from {role}")


def refused(connection, query):
    """Return the SQLSTATE, message and detail of a failing statement."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(query)
    assert caught.value.diag.message_hint
    return (
        caught.value.sqlstate,
        caught.value.diag.message_primary,
        caught.value.diag.message_detail,
    )


def after(connection):
    return [
        data
        for (data,) in rows(
            connection, "select ev_data::json -> 'after' from pgq.event_1 order by ev_id"
        )
    ]


@pytest.fixture
def changes(connection):
    """The log `changes`, and a table that is not captured yet."""
    connection.execute("create table account (id int primary key, name text, secret text)")
    connection.execute("select pgq.create_queue('changes')")
    return connection


def test_named_arguments(changes):
    changes.execute("select sluice.capture(source_table => 'account', log_name => 'changes')")
    changes.execute(
        "select sluice.capture(source_table => 'account', log_name => 'changes', options => '{}')"
    )

    assert value(changes, "select count(*) from sluice.list_captures()") == 1


@pytest.mark.parametrize("options", ['{"columns": ["id", "name"]}', '{"ignore": ["secret"]}'])
def test_columns_that_are_left_out_are_in_no_event_and_make_none(changes, options):
    changes.execute("select sluice.capture('account', 'changes', %s)", [options])
    changes.execute("insert into account values (1, 'a', 's'), (2, 'b', 's')")
    changes.execute("update account set secret = 't'")
    changes.execute("update account set secret = 'u', name = case id when 1 then 'A' else name end")

    assert after(changes) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
        {"id": 1, "name": "A"},
    ]


def test_only_the_operations_that_are_asked_for(changes):
    changes.execute("select sluice.capture('account', 'changes')")
    changes.execute(
        """select sluice.capture('account', 'changes', '{"operations": ["insert", "truncate"]}')"""
    )
    changes.execute("insert into account values (1, 'a', 's')")
    changes.execute("update account set name = 'b'")
    changes.execute("delete from account")
    changes.execute("truncate account")

    assert rows(changes, "select ev_type from pgq.event_1 order by ev_id") == [("c",), ("t",)]


def test_without_before_only_the_key_is_there_where_it_is_needed(changes):
    changes.execute("""select sluice.capture('account', 'changes', '{"before": false}')""")
    changes.execute("insert into account values (1, 'a', 's')")
    changes.execute("update account set name = 'b'")
    changes.execute("update account set id = 2")
    changes.execute("delete from account")

    assert rows(
        changes,
        "select ev_type, ev_data::json -> 'before' from pgq.event_1 order by ev_id offset 1",
    ) == [("u", None), ("u", {"id": 1}), ("d", {"id": 2})]


def test_the_key_is_the_primary_key_or_another_one_that_is_named(changes):
    changes.execute("alter table account alter name set not null")
    changes.execute("create unique index account_key on account (name, id) include (secret)")
    changes.execute("insert into account values (1, 'a', 's')")
    keys = []
    for options in ("{}", '{"key": ["id", "name"]}'):
        changes.execute("select sluice.capture('account', 'changes', %s)", [options])
        changes.execute("update account set secret = 't'")
    changes.execute("alter table account drop constraint account_pkey")
    changes.execute("select sluice.capture('account', 'changes')")
    changes.execute("delete from account")

    keys = rows(changes, "select ev_data::json #> '{source,key}' from pgq.event_1 order by ev_id")
    assert keys == [(["id"],), (["id", "name"],), (None,)]


@pytest.mark.parametrize(
    "index",
    [
        "create index on account (name)",
        "create unique index on account (name) where id > 0",
        "create unique index on account (lower(name))",
        "alter table account add unique (name) deferrable",
        "alter table account alter name drop not null, add unique (name)",
        "create unique index on account (name, secret)",
    ],
)
def test_non_unique_columns_are_refused_as_key(changes, index):
    changes.execute("alter table account alter name set not null, alter secret set not null")
    changes.execute(index)

    assert refused(
        changes, """select sluice.capture('account', 'changes', '{"key": ["name"]}')"""
    ) == (
        "22023",
        "(name) is no key of public.account",
        "A key has a unique index that is neither partial nor deferrable, and no nulls.",
    )


def test_a_primary_key_that_can_be_deferred_is_none(changes):
    changes.execute("create table later (id int primary key deferrable)")
    changes.execute("select sluice.capture('later', 'changes')")
    changes.execute("insert into later values (1)")

    assert value(changes, "select ev_data::json #>> '{source,key}' from pgq.event_1") is None
    assert (
        refused(changes, """select sluice.capture('later', 'changes', '{"before": false}')""")[0]
        == "22023"
    )


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ('{"ignored": ["x"]}', "22023", "a capture has no option 'ignored'"),
        ("[]", "22023", "options of a capture are [], and no object"),
        ('{"before": "no"}', "22023", 'option before of a capture is "no"'),
        ('{"columns": "id"}', "22023", 'option columns of a capture is "id"'),
        ('{"columns": []}', "22023", "option columns of a capture is []"),
        ('{"key": [1]}', "22023", "option key of a capture is [1]"),
        ('{"operations": ["merge"]}', "22023", 'option operations of a capture is ["merge"]'),
        (
            '{"columns": ["id"], "ignore": ["name"]}',
            "22023",
            "a capture has both options columns and ignore",
        ),
        ('{"ignore": ["no"]}', "PQ007", "captured table public.account has no column no"),
        ('{"columns": ["xmin"]}', "PQ007", "captured table public.account has no column xmin"),
        ('{"key": ["no"]}', "PQ007", "captured table public.account has no column no"),
        ('{"ignore": ["id"]}', "PQ007", "the capture of public.account leaves out a column of its key"),
        ("null", "22023", "options of a capture are null, and no object"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_and_named(changes, options, code, message):
    query = f"select sluice.capture('account', 'changes', '{options}')"

    assert refused(changes, query)[:2] == (code, message)
    assert rows(changes, "select * from sluice.list_captures()") == []


@pytest.mark.parametrize(
    "arguments", ["null, 'changes'", "'account', null", "'account', 'changes', null"]
)
def test_nulls_are_refused(changes, arguments):
    assert refused(changes, f"select sluice.capture({arguments})")[0] == "22004"


@pytest.mark.parametrize(
    ("relation", "detail"),
    [
        ("a_view", "It is no table."),
        ("parent", "It inherits or is inherited from"),
        ("child", "It inherits or is inherited from"),
        ("part", "It is a partition"),
        ("pgq.event_1_0", "It is part of the event log itself."),
        ("passing", "It is temporary"),
        ("unsafe", "It or one of its partitions is unlogged"),
        ("half_safe", "It or one of its partitions is unlogged"),
    ],
)
def test_relations_whose_changes_the_triggers_would_not_all_see_are_refused(
    changes, relation, detail
):
    changes.execute(
        """create view a_view as select * from account;
        create table parent (id int primary key); create table child () inherits (parent);
        create table whole (id int primary key) partition by range (id);
        create table part partition of whole default;
        create temporary table passing (id int primary key);
        create unlogged table unsafe (id int primary key);
        create table half_safe (id int primary key) partition by range (id);
        create unlogged table half partition of half_safe default"""
    )

    code, message, why = refused(changes, f"select sluice.capture('{relation}', 'changes')")

    assert (code, message.endswith("cannot be captured"), why.startswith(detail)) == (
        "PQ007",
        True,
        True,
    )


def test_a_log_that_was_made_again_is_captured_into_once(changes):
    changes.execute("select sluice.capture('account', 'changes')")
    changes.execute("select pgq.drop_queue('changes'), pgq.create_queue('changes')")
    changes.execute("select sluice.capture('account', 'changes')")
    changes.execute("insert into account values (1, 'a', 's')")

    assert value(changes, "select count(*) from pgq.event_2") == 1


def test_trigger_privilege_suffices_to_capture_a_table(changes, role, server):
    changes.execute(f"grant sluice_admin to {role}; grant trigger on account to {role}")
    with changes.transaction():
        changes.execute(f"set local role {role}")
        changes.execute("select sluice.capture('account', 'changes')")
    changes.execute("insert into account values (1, 'a', 's')")

    assert value(changes, "select count(*) from pgq.event_1") == 1
    changes.execute(f"revoke sluice_admin from {role}; revoke all on account from {role}")
