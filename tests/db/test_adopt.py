"""Adoption of PGMQ: messages and privileges it keeps, objects it replaces, roles, atomicity."""

from __future__ import annotations

import re

import psycopg
import pytest

from pgsluice import schema
from pgsluice.errors import RetryableError, SchemaError
from support import rows, value
from support.adopt import add_users, contents, fill, rights, without_grants
from support.pgmq import make_older, upstream_sql

# Tables of queues whose messages pg_monitor reads: in PGMQ all, after the adoption none.
MONITORED = (
    "select count(*) from pg_class where relnamespace = 'pgmq'::regnamespace and relname ~ '^[qa]_' "
    "and relkind in ('r', 'p') and has_table_privilege('pg_monitor', oid, 'select')"
)


def of_others(rights):
    """Return the rights of all roles but pg_monitor."""
    return [right for right in rights if "pg_monitor" not in right]


@pytest.fixture
def pgmq(empty_database):
    """A superuser's session in a database where PGMQ 1.13.0 was installed from SQL."""
    with empty_database.connect() as connection:
        connection.execute(upstream_sql())
        yield connection


@pytest.fixture
def client(pgmq, role):
    """A role of another application."""
    yield role
    pgmq.execute("reset role")
    pgmq.execute(f"drop owned by {role} cascade")


def refusal(connection):
    """Check that plan and adoption are refused and change nothing; return the reasons."""
    before = schema.fingerprint(connection)

    plan = schema.plan_adoption(connection)
    with pytest.raises(SchemaError) as caught:
        schema.adopt(connection)

    for objection in plan.objections:
        assert objection in str(caught.value)
    assert plan.objections
    assert schema.fingerprint(connection) == before
    return "\n".join(plan.objections)


@pytest.mark.slow
def test_a_hundred_thousand_messages_stay_with_their_ids_rights_policies_and_triggers(pgmq, client):
    fill(pgmq, 100_000)
    add_users(pgmq, client)
    pgmq.execute("select pgmq.bind_topic('a.*', 'orders')")
    contents_before, rights_before = contents(pgmq), rights(pgmq)

    steps = schema.adopt(pgmq)

    assert "recreate the indexes of queues: 3 (2 logged, 1 unlogged, 0 partitioned)" in "\n".join(
        steps
    )
    assert contents(pgmq) == contents_before
    assert of_others(rights(pgmq)) == of_others(rights_before)
    assert value(pgmq, MONITORED) == 0
    assert value(pgmq, "select pgmq.send('orders', '1'::jsonb)") == 110_001
    assert value(pgmq, "select count(*) from public.audit") == 1
    assert rows(pgmq, "select msg_id from pgmq.read('orders', 1, 2)") == [(10_001,), (10_002,)]
    assert value(pgmq, "select pgmq.send_topic('a.b', '1'::jsonb)") == 1
    assert rows(pgmq, "select msg_id from pgmq.read('fast', 1, 1)") == [(3,)]
    assert value(pgmq, "select pgmq.metrics('Mixed Case-1')").startswith('("Mixed Case-1",1,')


def test_attempts_of_messages_that_were_claimed_before_are_counted(pgmq):
    pgmq.execute("select pgmq.create('orders')")
    pgmq.execute("select pgmq.send_batch('orders', array['1', '2']::jsonb[])")
    pgmq.execute("select pgmq.read('orders', 0, 2)")
    pgmq.execute("select pgmq.read('orders', 60, 2)")

    schema.adopt(pgmq)

    claims = "'orders', '{1, 2}', '{2, 2}'"
    assert rows(pgmq, f"select attempt from sluice.begin_attempts({claims}, 'w', 3)") == [
        (2,),
        (2,),
    ]
    failures = '[{"msg_id": 1, "read_ct": 2}, {"msg_id": 2, "read_ct": 2, "reject": true}]'
    assert rows(pgmq, f"select outcome, attempt from sluice.fail('orders', '{failures}')") == [
        ("retry", 2),
        ("dead", 2),
    ]
    pgmq.execute("select pgmq.drop_queue('orders')")
    assert value(pgmq, "select count(*) from sluice.attempt") == 0


@pytest.mark.slow
def test_the_catalog_is_afterwards_that_of_an_installation(pgmq, connection):
    fill(pgmq)

    schema.adopt(pgmq)

    assert schema.verify(pgmq) == ()
    assert without_grants(schema.fingerprint(pgmq)) == without_grants(
        schema.fingerprint(connection)
    )
    ledger = "select version, checksum, breaking from sluice.migration order by 1"
    assert rows(pgmq, ledger) == rows(connection, ledger)


@pytest.mark.slow
def test_an_adopted_queue_has_the_indexes_and_grants_of_a_new_one(pgmq, connection):
    pgmq.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.create('orders')")
    indexes = "select indexdef from pg_indexes where schemaname = 'pgmq' and tablename ~ '^[qa]_' order by 1"
    grants = """select distinct relname, grantee::regrole::text, privilege_type
        from pg_class cross join lateral aclexplode(relacl)
        where relnamespace = 'pgmq'::regnamespace and relname ~ '_orders' order by 1, 2, 3"""

    schema.adopt(pgmq)

    assert rows(pgmq, indexes) == rows(connection, indexes)
    assert rows(pgmq, grants) == rows(connection, grants)


@pytest.mark.slow
def test_the_plan_says_every_step_and_changes_nothing(pgmq, client):
    fill(pgmq)
    add_users(pgmq, client)
    pgmq.execute("select pgmq.create_fifo_index('orders'), pgmq.enable_notify_insert('orders', 7)")
    pgmq.execute("create function pgmq.mine() returns integer return 1")
    before = (schema.fingerprint(pgmq), contents(pgmq), rights(pgmq))

    plan = schema.plan_adoption(pgmq)

    assert plan.objections == ()
    # The number of functions replaced in place, of PGMQ's 76, depends on our release.
    [dropped] = [line for line in plan.steps if line.startswith("drop functions: ")]
    assert "pgmq._belongs_to_pgmq(text), " in dropped
    stay = 76 - int(dropped.split()[2])
    assert [re.sub(r", reading \d+ \w+$", "", line) for line in plan.steps] == [
        "lock tables until the end, which blocks senders and readers: 9",
        f"replace functions in place: {stay}",
        dropped,
        "keep functions that are not PGMQ's: 1 (pgmq.mine())",
        "set table pgmq.notify_insert_throttle logged",
        "recreate the indexes of queues: 3 (2 logged, 1 unlogged, 0 partitioned)",
        "make the sequences of unlogged queues logged: 1",
        "replace FIFO indexes: 1",
        "replace notify triggers, and keep their throttles: 1",
        "grant pg_monitor execute on all functions",
        f"grant {client} execute on all functions",
        "create schemas pgq, pgq_coop and sluice",
    ]  # fmt: skip
    assert (schema.fingerprint(pgmq), contents(pgmq), rights(pgmq)) == before
    assert schema.adopt(pgmq) == plan.steps
    assert value(pgmq, "select pgmq.mine()") == 1


@pytest.mark.slow
def test_adopting_twice_does_nothing(pgmq):
    fill(pgmq)
    schema.adopt(pgmq)
    before = (schema.fingerprint(pgmq), contents(pgmq))

    assert schema.adopt(pgmq) == ()
    assert schema.plan_adoption(pgmq).steps == ()

    assert (schema.fingerprint(pgmq), contents(pgmq)) == before


@pytest.mark.slow
def test_an_adoption_is_part_of_the_callers_transaction_and_gives_its_settings_back(
    empty_database, pgmq
):
    with empty_database.connect(autocommit=False) as connection:
        settings = "select current_setting('role'), current_setting('search_path'), current_setting('lock_timeout')"
        before = rows(connection, settings)
        schema.adopt(connection)
        assert rows(connection, settings) == before
        assert value(connection, "select to_regclass('adopted_queue')") is None
        connection.rollback()

    assert schema.installed_versions(pgmq) == ()
    assert (
        value(pgmq, "select to_regprocedure('pgmq._get_partition_col(text)') is not null") is True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "tag", ["DROP FUNCTION", "CREATE SCHEMA", "CREATE INDEX", "CREATE TRIGGER"]
)
def test_an_adoption_that_fails_midway_changes_nothing(pgmq, client, tag):
    fill(pgmq)
    add_users(pgmq, client)
    pgmq.execute("select pgmq.enable_notify_insert('orders')")
    before = (schema.fingerprint(pgmq), contents(pgmq), rights(pgmq))
    pgmq.execute(
        f"""create function public.fail() returns event_trigger language plpgsql as $$ begin raise 'planted'; end; $$;
        create event trigger fail on ddl_command_start when tag in ('{tag}') execute function public.fail()"""
    )

    with pytest.raises(Exception, match="planted"):
        schema.adopt(pgmq)

    pgmq.execute("drop event trigger fail")
    assert (schema.fingerprint(pgmq), contents(pgmq), rights(pgmq)) == before
    assert schema.adopt(pgmq) != ()


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["MyQ", "myq"], "queues 'MyQ' and 'myq' share the table pgmq.q_myq; keep the name that"),
        ([""], "queue name '' is empty or contains control characters; rename its tables"),
        (["a\nb"], "is empty or contains control characters; rename its tables"),
        (["ä" * 24], "queue name '" + "ä" * 24 + "' has 48 bytes; rename its tables"),
    ],
)
def test_names_that_would_lose_messages_are_refused_with_a_hint(pgmq, names, reason):
    for name in names:
        pgmq.execute("select pgmq.create(%s)", (name,))

    assert reason in refusal(pgmq)


@pytest.mark.slow
def test_two_names_of_one_table_are_adopted_once_one_is_deleted(pgmq):
    pgmq.execute("select pgmq.create('MyQ'), pgmq.create('myq'), pgmq.send('myq', '1'::jsonb)")
    pgmq.execute("delete from pgmq.meta where queue_name = 'MyQ'")

    schema.adopt(pgmq)

    assert rows(pgmq, "select msg_id from pgmq.read('myq', 1, 9)") == [(1,)]


@pytest.mark.slow
def test_a_view_on_a_function_that_is_replaced_in_place_stays(pgmq):
    fill(pgmq)
    pgmq.execute(
        "create view public.lengths as select queue_name, queue_length from pgmq.metrics_all()"
    )
    before = rows(pgmq, "select * from public.lengths order by 1")

    schema.adopt(pgmq)

    assert rows(pgmq, "select * from public.lengths order by 1") == before


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.9", "1.5"])
def test_an_older_pgmq_is_adopted_with_its_messages(pgmq, client, version):
    fill(pgmq)
    add_users(pgmq, client)
    pgmq.execute("select pgmq.enable_notify_insert('orders', 40)")
    make_older(pgmq, version)
    before, rights_before = contents(pgmq), rights(pgmq)
    before.pop("topic_bindings", None)

    steps = "\n".join(schema.adopt(pgmq))

    after = contents(pgmq)
    assert after.pop("topic_bindings")[2] == 0
    assert after == before
    assert of_others(rights(pgmq)) == of_others(rights_before)
    assert value(pgmq, MONITORED) == 0
    assert "drop and recreate type pgmq.message_record" in steps
    assert "add to type pgmq.metrics_result: default_partition_length bigint" in steps
    assert "add columns (headers, last_read_at) to tables of queues: 6" in steps
    assert schema.verify(pgmq) == ()
    assert rows(pgmq, "select msg_id, last_read_at is null from pgmq.pop('fast', 2)") == [
        (3, True),
        (4, True),
    ]
    throttles = "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()"
    assert rows(pgmq, throttles) == ([("orders", 40)] if version == "1.9" else [])
    pgmq.execute(f"set role {client}")
    assert rows(pgmq, "select msg_id from pgmq.read('orders', 1, 1)") == [(101,)]


@pytest.mark.slow
def test_objects_depending_on_a_changed_type_are_refused_by_name(pgmq):
    pgmq.execute("select pgmq.create('orders')")
    make_older(pgmq, "1.9")
    pgmq.execute("create view public.next as select msg_id from pgmq.read('orders', 0, 1)")
    pgmq.execute(
        "create function public.take() returns setof pgmq.message_record language sql as 'select * from pgmq.pop(''orders'')'"
    )

    reason = refusal(pgmq)

    assert re.search(
        r"view public.next depends on .*function pgmq.read\(text,integer,integer,jsonb\), which",
        reason,
    )
    assert "function public.take() depends on type pgmq.message_record, which" in reason
    assert reason.count("drop it, adopt, and create it again") == 2
    pgmq.execute("drop view public.next; drop function public.take()")
    assert schema.adopt(pgmq) != ()


@pytest.mark.slow
def test_execute_privileges_are_unchanged(pgmq, client):
    fill(pgmq)
    add_users(pgmq, client)

    schema.adopt(pgmq)

    pgmq.execute(f"set role {client}")
    assert value(pgmq, "select pgmq.send('orders', '{\"n\": 0}'::jsonb)") == 1101
    assert rows(pgmq, "select msg_id from pgmq.read('orders', 9, 1)") == [(101,)]
    assert rows(pgmq, "select pgmq.archive('orders', array[101])") == [(101,)]
    assert rows(pgmq, "select msg_id from pgmq.pop('orders')") == [(102,)]
    assert value(pgmq, "select pgmq.delete('orders', 103)") is True
    assert rows(pgmq, "select msg_id from pgmq.set_vt('orders', 104, 5)") == [(104,)]
    # The head of the only group is in flight.
    assert rows(pgmq, "select msg_id from pgmq.read_grouped('orders', 9, 1)") == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="q_fast"):
        pgmq.execute("select pgmq.read('fast', 1, 1)")
    pgmq.execute("reset role")
    # Functions of a later release too, as read may call them.
    pgmq.execute(
        "set role sluice_owner; create function pgmq.later() returns integer return 1; reset role"
    )
    assert (
        value(pgmq, "select has_function_privilege(%s, 'pgmq.later()', 'execute')", client) is True
    )
    # Also a queue created later, once the role is granted its tables.
    pgmq.execute("select pgmq.create('later')")
    pgmq.execute(f"grant select, insert, update, delete on pgmq.q_later to {client}")
    pgmq.execute(f"set role {client}")
    pgmq.execute("select pgmq.send('later', '1'::jsonb)")
    assert rows(pgmq, "select msg_id from pgmq.read('later', 9, 1)") == [(1,)]


def test_a_role_that_had_some_functions_only_has_those_and_what_they_call(pgmq, client):
    fill(pgmq)
    pgmq.execute(
        f"""revoke execute on all functions in schema pgmq from public;
        grant usage on schema pgmq to {client};
        grant execute on function pgmq.read(text, integer, integer, jsonb), pgmq.format_table_name(text, text) to {client};
        grant select, update, delete on pgmq.q_orders to {client}"""
    )

    schema.adopt(pgmq)

    may = "select has_function_privilege(%s, %s, 'execute')"
    assert value(pgmq, may, client, "pgmq.pop(text, integer)") is False
    assert value(pgmq, may, client, "pgmq.drop_queue(text)") is False
    pgmq.execute(f"set role {client}")
    assert rows(pgmq, "select msg_id from pgmq.read('orders', 9, 1)") == [(101,)]


def test_a_schema_that_public_may_use_is_refused(pgmq):
    pgmq.execute("grant usage on schema pgmq to public")

    assert "PUBLIC may use schema pgmq; grant usage on it to the roles that call PGMQ" in refusal(
        pgmq
    )


@pytest.mark.slow
def test_adopted_queue_notifies_listeners_with_the_same_throttle(empty_database, pgmq):
    pgmq.execute("select pgmq.create('orders'), pgmq.create('other')")
    pgmq.execute("select pgmq.enable_notify_insert('orders', 60000)")
    channels = []
    with empty_database.connect() as listener:
        listener.add_notify_handler(lambda notification: channels.append(notification.channel))
        listener.execute('listen "pgmq.q_orders.INSERT"')

        schema.adopt(pgmq)
        for _ in range(3):
            pgmq.execute("select pgmq.send('orders', '1'::jsonb), pgmq.send('other', '1'::jsonb)")
        listener.execute("select 1")

    assert channels == ["pgmq.q_orders.INSERT"]
    assert rows(pgmq, "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()") == [
        ("orders", 60000)
    ]  # fmt: skip


@pytest.mark.slow
def test_notifications_that_a_crash_disabled_are_enabled_again(pgmq):
    pgmq.execute("select pgmq.create('orders'), pgmq.enable_notify_insert('orders', 60000)")
    pgmq.execute(
        "truncate pgmq.notify_insert_throttle"
    )  # as after a crash, since the table is unlogged

    schema.adopt(pgmq)

    assert rows(pgmq, "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()") == [
        ("orders", 250)
    ]  # fmt: skip


@pytest.mark.slow
def test_a_queue_whose_table_is_missing_is_skipped_and_reported(pgmq):
    pgmq.execute("select pgmq.create('orders'), pgmq.create('broken')")
    pgmq.execute("drop table pgmq.q_broken")

    steps = schema.adopt(pgmq)

    assert (
        "skip queue 'broken', whose table is missing: restore the table, or delete its row from pgmq.meta"
        in steps
    )
    assert value(pgmq, "select to_regclass('pgmq.q_broken')") is None


@pytest.mark.slow
def test_tables_that_cannot_be_locked_in_time_are_named_and_nothing_changes(empty_database, pgmq):
    fill(pgmq)
    before = (schema.fingerprint(pgmq), contents(pgmq))

    with empty_database.connect(autocommit=False) as long:
        long.execute("select pgmq.read('orders', 1, 1)")
        with pytest.raises(
            RetryableError, match="could not lock the tables within 0.3 s.*pgmq.q_orders"
        ):
            schema.adopt(pgmq, lock_deadline_s=0.3)
        long.rollback()

    assert (schema.fingerprint(pgmq), contents(pgmq)) == before
    assert schema.adopt(pgmq) != ()


def test_role_without_ownership_of_pgmq_is_refused_naming_the_owner(empty_database, pgmq, client):
    pgmq.execute(f"grant create on database {empty_database.name} to {client}")
    url = empty_database.url.replace("postgres@", f"{client}@")
    with psycopg.connect(url, autocommit=True) as stranger:
        pgmq.execute(
            f"grant usage on schema pgmq to {client}; grant select on pgmq.meta to {client}"
        )
        plan = schema.plan_adoption(stranger)
        with pytest.raises(SchemaError):
            schema.adopt(stranger)

    [reason] = [line for line in plan.objections if "belong to postgres" in line]
    assert reason.endswith(
        f"whose rights {client} does not have; adopt as postgres or as a superuser"
    )


@pytest.mark.slow
@pytest.mark.parametrize("owner_afterwards", ["itself", "sluice_owner"])
def test_the_owner_adopts_without_being_superuser(empty_database, server, role, owner_afterwards):
    sql = upstream_sql()
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"alter database {empty_database.name} owner to {role}")
        if owner_afterwards == "sluice_owner":
            admin.execute(f"grant sluice_owner to {role} with admin option")
    url = empty_database.url.replace("postgres@", f"{role}@")
    try:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(sql)
            fill(owner)
            before = contents(owner)

            schema.adopt(owner)

            assert contents(owner) == before
            assert schema.verify(owner) == ()
            assert value(owner, "select pgmq.send('orders', '1'::jsonb)") == 1101
            owners = rows(
                owner,
                """select nspowner::regrole::text from pg_namespace where nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
                union select proowner::regrole::text from pg_proc where pronamespace = 'pgmq'::regnamespace""",
            )
            assert owners == [(role if owner_afterwards == "itself" else "sluice_owner",)]
    finally:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(f"alter database {empty_database.name} owner to postgres")
        with empty_database.connect() as connection:
            connection.execute(f"drop owned by {role}")


@pytest.mark.slow
def test_the_owner_before_keeps_its_rights_when_a_superuser_adopts(empty_database, pgmq, client):
    fill(pgmq)
    pgmq.execute(
        f"""grant create on database {empty_database.name} to {client};
        alter schema pgmq owner to {client};
        alter table pgmq.meta owner to {client};
        alter table pgmq.topic_bindings owner to {client};
        alter table pgmq.q_orders owner to {client};
        alter table pgmq.a_orders owner to {client}"""
    )

    schema.adopt(pgmq)

    pgmq.execute(f"set role {client}")
    assert rows(pgmq, "select msg_id from pgmq.read('orders', 9, 1)") == [(101,)]
    pgmq.execute("select pgmq.create('mine'), pgmq.bind_topic('a', 'mine')")
    assert value(pgmq, "select pgmq.send_topic('a', '1'::jsonb)") == 1
    assert value(pgmq, "select pgmq.drop_queue('mine')") is True
    pgmq.execute("reset role")
    assert (
        value(pgmq, "select tableowner from pg_tables where tablename = 'q_orders'")
        == "sluice_owner"
    )
    assert (
        value(pgmq, "select tableowner from pg_tables where tablename = 'meta'") == "sluice_owner"
    )


@pytest.mark.parametrize("name", ["pgq", "sluice"])
def test_a_schema_in_the_way_of_ours_is_refused(pgmq, name):
    pgmq.execute(f"create schema {name}")

    assert (
        f"schema {name} exists and was not created by pgsluice; move it out of the way"
        in refusal(pgmq)
    )


def test_a_schema_that_is_not_pgmqs_is_refused(empty_database):
    with empty_database.connect() as connection:
        connection.execute("create schema pgmq; create table pgmq.meta (queue_name text)")

        reason = refusal(connection)

    assert "this is not PGMQ 1.5 to 1.13: pgmq.meta has no column created_at" in reason
    assert "type pgmq.message_record is missing or has no attribute headers" in reason


def test_adopt_without_pgmq_names_install(empty_database):
    with empty_database.connect() as connection:
        for act in (schema.adopt, schema.plan_adoption):
            with pytest.raises(SchemaError, match="neither PGMQ nor PgQ to adopt; install with"):
                act(connection)


def test_installing_over_pgmq_is_refused_and_names_the_way(pgmq):
    with pytest.raises(SchemaError, match="schema pgmq already exists .* `pgsluice schema adopt`"):
        schema.install(pgmq)


def test_a_function_of_another_role_in_the_schema_is_named_with_a_hint(pgmq, client):
    pgmq.execute("create function pgmq._create_reader(varchar) returns void language sql as ''")
    pgmq.execute(f"grant create on schema pgmq to {client}")
    pgmq.execute(f"alter function pgmq._create_reader(varchar) owner to {client}")

    assert (
        f"function pgmq._create_reader(character varying) belongs to {client}, who could run code with the installer's "
        "rights through it; drop it, or move it to another schema: alter function pgmq._create_reader(character varying) "
        "set schema ..."
    ) in refusal(pgmq)


@pytest.mark.slow
def test_role_that_could_not_create_queues_cannot_drop_them_afterwards(pgmq, client):
    fill(pgmq)
    add_users(pgmq, client)

    schema.adopt(pgmq)

    pgmq.execute(f"set role {client}")
    for call in ("drop_queue('orders')", "create('mine')", "enable_notify_insert('orders')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for function"):
            pgmq.execute(f"select pgmq.{call}")
    pgmq.execute("reset role")
