"""Queue tables belong to the schemas' owner, and its rights run no code of other roles on them.

Covers _foreign_code, _require_own_table and _require_no_foreign_code.
"""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import schema
from support import rows, value
from support.queue_options import NO_LIMITS, set_queue_options

OWNERS = """
select distinct pg_get_userbyid(relowner) from pg_class
where relnamespace = 'pgmq'::regnamespace and relname ~ '^[qa]_' and relkind in ('r', 'p', 'S')
"""
TRAP = """
create function public.trap() returns trigger language plpgsql as $$
begin raise warning 'ran as %', current_user; return coalesce(new, old); end; $$
"""
CHANGES = {
    "trigger": "create trigger trap before insert or update or delete on {table} for each row execute function public.trap()",
    "rule": "create rule trap as on delete to {table} do also notify trap",
    "default": "alter table {table} alter column read_ct set default public.trap_number()",
    "index": "create index trap on {table} (public.trap_number(read_ct))",
    "check": "alter table {table} add constraint trap check (public.trap_number(read_ct) >= 0) not valid",
}


@pytest.fixture
def member(database, connection, role):
    """A session of a member of sluice_admin that may create in schema public."""
    connection.execute(f"grant sluice_admin to {role}")
    connection.execute(f"grant create on schema public to {role}")
    with database.connect(user=role) as session:
        session.execute(TRAP)
        session.execute(
            "create function public.trap_number(integer default 0) returns integer language sql immutable return 0"
        )
        yield session
    connection.execute(f"drop owned by {role} cascade")


def give_to(connection: psycopg.Connection, role: str, *tables: str) -> None:
    for table in tables:
        connection.execute(f"alter table pgmq.{table} owner to {role}")


def test_queues_of_a_member_of_sluice_admin_belong_to_the_owner_of_the_schemas(connection, member):
    for call in (
        "create('a')", "create_unlogged('b')", "create_non_partitioned('c')", "create_partitioned('d', '10', '100', 1)",
        "create_fifo_index('a')", "enable_notify_insert('a')", "convert_archive_partitioned('a')",
    ):  # fmt: skip
        member.execute(f"select pgmq.{call}")
    set_queue_options(member, "a", fleet_concurrency=3, key_concurrency=1)
    member.execute("select pgmq.send('d', '1'::jsonb) from generate_series(1, 40)")

    assert rows(member, "select * from sluice.maintain() where not done") == []
    assert rows(connection, OWNERS) == [("sluice_owner",)]
    set_queue_options(member, "a", **NO_LIMITS)
    member.execute("select pgmq.disable_notify_insert('a')")
    assert rows(member, "select pgmq.purge_queue('d')") == [(40,)]
    assert rows(
        member, "select distinct pgmq.drop_queue(q) from unnest('{a,b,c,d}'::text[]) as q"
    ) == [(True,)]


def test_a_member_of_sluice_admin_cannot_create_in_our_schemas(connection, member):
    member.execute("select pgmq.create('orders')")

    for statement in (
        "create function pgmq._create_reader(varchar) returns void language sql as ''",
        "create view pgmq.q_view as select 1",
        "create index on pgmq.q_orders (read_ct)",
        "create trigger t before insert on pgmq.q_orders for each row execute function pgmq.notify_queue_listeners()",
        "alter table pgmq.q_orders add column x integer default public.trap_number()",
        "create table sluice.mine (n integer)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            member.execute(statement)


def test_a_member_cannot_use_the_notify_trigger_on_a_table_of_its_own(member):
    member.execute("create table public.own (n integer)")

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        member.execute(
            "create trigger t after insert on public.own for each statement "
            "execute function pgmq.notify_queue_listeners('orders', 'pgq.queue_queue_id_seq')"
        )


@pytest.mark.slow
def test_tables_of_a_role_are_handed_over_by_the_next_installation_and_keep_its_rights(
    connection, member, role
):
    connection.execute(
        "select pgmq.create('orders'), pgmq.create_partitioned('parts', '10', '100', 1)"
    )
    give_to(connection, role, "q_orders", "a_orders", "q_parts", "q_parts_default")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    connection.execute(f"revoke sluice_admin from {role}")

    schema.install(connection)

    assert rows(connection, OWNERS) == [("sluice_owner",)]
    assert schema.verify(connection) == ()
    connection.execute(f"grant usage on schema pgmq to {role}")
    assert rows(member, "update pgmq.q_orders set vt = now() returning msg_id") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(CHANGES))
def test_a_table_with_code_of_its_owner_is_not_handed_over_and_is_named(
    connection, member, role, kind
):
    connection.execute("select pgmq.create('orders')")
    give_to(connection, role, "q_orders")
    connection.execute(f"grant create on schema pgmq to {role}")
    member.execute(CHANGES[kind].format(table="pgmq.q_orders"))
    connection.execute(f"revoke create on schema pgmq from {role}")

    schema.install(connection)

    lines = schema.verify(connection)
    assert lines[0] == (
        f"-table pgmq.q_orders belongs to {role}: functions that change it refuse; "
        "alter table pgmq.q_orders owner to sluice_owner"
    )
    assert [line for line in lines[1:] if "trap" not in line] == []
    assert "trap" in value(connection, "select pgmq._foreign_code('pgmq.q_orders'::regclass)")


@pytest.mark.slow
def test_a_table_whose_owner_is_above_row_security_is_not_handed_over(connection, member, role):
    connection.execute("select pgmq.create('orders')")
    give_to(connection, role, "q_orders")
    member.execute("alter table pgmq.q_orders enable row level security")

    schema.install(connection)

    assert ["q_orders" in line for line in schema.verify(connection)] == [True]


def test_functions_that_change_a_table_of_another_role_refuse_and_name_a_hint(
    connection, member, role
):
    connection.execute(
        "select pgmq.create('orders'), pgmq.create_partitioned('parts', '10', '100', 1)"
    )
    give_to(connection, role, "q_orders", "a_orders", "q_parts", "q_parts_default")

    for call in (
        "pgmq.create_fifo_index('orders')", "pgmq.enable_notify_insert('orders')", "pgmq.disable_notify_insert('orders')",
        "pgmq.convert_archive_partitioned('orders')", "sluice.set_queue_options('orders', '{\"fleet_concurrency\": 3}')",
        "pgmq.create_partitioned('parts', '10', '100', 1)",
    ):  # fmt: skip
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match=f"belongs to {role}"
        ) as caught:
            member.execute(f"select {call}")
        assert "owner to sluice_owner" in caught.value.diag.message_hint
    member.execute("select pgmq.create('orders')")  # nothing to change
    failed = rows(member, "select queue_name, detail from sluice.maintain() where not done")
    assert (
        failed.count(("parts", f"table pgmq.q_parts belongs to {role} and not to sluice_owner"))
        == 3
    )
    assert value(member, "select pgmq.purge_queue('orders')") == 0
    assert rows(member, "select pgmq.drop_queue('orders'), pgmq.drop_queue('parts')") == [
        (True, True)
    ]


def test_maintenance_moves_no_rows_through_a_trigger_of_another_role(connection, member, role):
    connection.execute("select pgmq.create_partitioned('parts', '10', '100', 1)")
    connection.execute(f"grant trigger on all tables in schema pgmq to {role}")
    connection.execute(
        "insert into pgmq.q_parts (msg_id, vt) overriding system value values (500, now()), (501, now())"
    )
    member.execute(CHANGES["trigger"].format(table="pgmq.q_parts"))
    warnings = []
    connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))

    done = rows(connection, "select done, detail from sluice.maintain() where not done")

    assert done == [
        (
            False,
            "cannot write rows of pgmq.q_parts: they would run code of an untrusted role",
        )
    ]
    assert warnings == []
    connection.execute("alter function public.trap() owner to sluice_owner")
    assert rows(connection, "select done from sluice.maintain() where not done") == []
    assert set(warnings) == {"ran as sluice_owner"}


def test_a_trigger_of_a_superuser_is_no_foreign_code(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(TRAP)
    connection.execute(CHANGES["trigger"].format(table="pgmq.q_orders"))

    assert value(connection, "select pgmq._foreign_code('pgmq.q_orders'::regclass)") is None
    connection.execute("select pgmq._require_no_foreign_code('pgmq.q_orders'::regclass)")
    connection.execute("select pgmq._require_own_table('q_orders')")


def test_a_creator_that_is_no_member_of_sluice_admin_gets_the_rights_on_new_queues_alone(
    connection, member, role
):
    """Also covers pgmq._grant_creator."""
    connection.execute(f"revoke sluice_admin from {role}")
    connection.execute(f"grant usage on schema pgmq to {role}")
    connection.execute(f"grant execute on all functions in schema pgmq to {role}")
    connection.execute("select pgmq.create('others')")

    member.execute("select pgmq.create('mine'), pgmq.create_partitioned('parts')")
    member.execute("select pgmq.create('others')")

    for queue in ("mine", "parts"):
        assert value(member, "select pgmq.send(%s, '1'::jsonb)", queue) == 1
        assert len(rows(member, "select * from pgmq.read(%s, 1, 1)", queue)) == 1
        assert value(member, "select pgmq.archive(%s, 1)", queue) is True
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        member.execute("select pgmq.send('others', '1'::jsonb)")


def test_a_schedule_runs_no_trigger_of_another_role_with_the_rights_of_maintenance(
    connection, member, role
):
    connection.execute("select pgmq.create('orders')")
    connection.execute(f"grant trigger on pgmq.q_orders to {role}")
    member.execute(CHANGES["trigger"].format(table="pgmq.q_orders"))
    member.execute(
        "select sluice.schedule('daily', 'orders', '1'::jsonb, every => interval '1 second')"
    )
    connection.execute("update sluice.schedule set due_at = now(), next_slot = now()")
    warnings = []
    connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))

    failed = rows(connection, "select name, error from sluice.fire_schedules()")

    refusal = "cannot write rows of pgmq.q_orders: they would run code of an untrusted role"
    assert failed == [("daily", refusal)]
    assert warnings == []
    member.execute("update sluice.schedule set due_at = now()")
    assert rows(member, "select error from sluice.fire_schedules()") == [(None,)]


def test_retention_runs_no_trigger_of_another_role_with_the_rights_of_maintenance(
    connection, member, role
):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.archive('orders', pgmq.send('orders', '1'::jsonb))")
    connection.execute("update pgmq.a_orders set archived_at = now() - interval '1 day'")
    connection.execute(f"grant trigger on pgmq.a_orders to {role}")
    member.execute(CHANGES["trigger"].format(table="pgmq.a_orders"))
    set_queue_options(member, "orders", archive_retention="1 hour")
    warnings = []
    connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))

    left = rows(connection, "select task, queue_name, detail from sluice.maintain() where not done")

    refusal = "cannot write rows of pgmq.a_orders: they would run code of an untrusted role"
    assert left == [("retention", "orders", refusal)]
    assert warnings == []
    assert rows(member, "select detail from sluice.maintain() where task = 'retention'") == [
        ("1 archived messages deleted",)
    ]


def test_the_extra_rights_of_a_member_do_not_make_its_code_trusted(connection, member, role):
    """The code of the current role is trusted with its own rights alone."""
    connection.execute("select pgmq.create('orders')")
    connection.execute(f"grant trigger on pgmq.q_orders to {role}")
    member.execute(CHANGES["trigger"].format(table="pgmq.q_orders"))
    code = "select pgmq._foreign_code('pgmq.q_orders'::regclass)"

    assert value(member, code) is None
    assert "trap" in value(connection, code)
