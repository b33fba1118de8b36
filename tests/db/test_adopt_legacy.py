"""Adoption of PGMQ 0.20, whose tables and functions are in schema public: a reconstruction of its objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from pgsluice import schema
from pgsluice.cli.main import cli
from pgsluice.errors import SchemaError
from support import rows, value
from support.adopt import extension_files

FILES = {
    "pgmq.control": "default_version = '0.20.0'\nrelocatable = false\n",
    "pgmq--0.20.0.sql": "",
}
META = """
create table public.pgmq_meta (
    queue_name varchar unique not null, created_at timestamptz default '2023-08-30' not null
);
alter extension pgmq add table public.pgmq_meta;
"""
QUEUE = """
create table public.pgmq_{0} (
    msg_id bigserial not null primary key, read_ct int default 0 not null,
    enqueued_at timestamptz default now() not null, vt timestamptz not null, message jsonb
);
create index pgmq_{0}_vt_idx on public.pgmq_{0} (vt asc);
create table public.pgmq_{0}_archive (
    msg_id bigserial not null primary key, read_ct int default 0 not null,
    enqueued_at timestamptz default now() not null, archived_at timestamptz default now() not null,
    vt timestamptz not null, message jsonb
);
create index archived_at_idx_{0} on public.pgmq_{0}_archive (archived_at);
alter extension pgmq add table public.pgmq_{0};
alter extension pgmq add table public.pgmq_{0}_archive;
"""
# Ready, claimed, delayed and archived messages; the last ids belong to deleted ones.
MESSAGES = """
insert into public.pgmq_orders (vt, message) select now(), jsonb_build_object('n', n) from generate_series(1, 20) as n;
update public.pgmq_orders set vt = clock_timestamp() + interval '1 hour', read_ct = 2 where msg_id in (1, 2);
with moved as (delete from public.pgmq_orders where msg_id in (3, 4, 5) returning msg_id, vt, read_ct, enqueued_at, message)
insert into public.pgmq_orders_archive (msg_id, vt, read_ct, enqueued_at, message)
select msg_id, vt, read_ct, enqueued_at, message from moved;
delete from public.pgmq_orders where msg_id > 18;
"""
FUNCTIONS = """
create function public.pgmq_send(queue_name text, message jsonb) returns bigint language sql as 'select 1::bigint';
create function public.pgmq_list_queues() returns table (queue_name text, created_at timestamptz)
language sql as 'select null::text, null::timestamptz';
alter extension pgmq add function public.pgmq_send(text, jsonb);
"""
QUEUED = "select msg_id, read_ct, enqueued_at, vt, message from {} order by msg_id"
ARCHIVED = "select msg_id, read_ct, enqueued_at, archived_at, vt, message from {} order by msg_id"
FOUND = "select extname from pg_extension where extname = 'pgmq'"


@pytest.fixture
def old(empty_database, server, servers_folder: Path) -> Iterator[psycopg.Connection]:
    """A superuser's session in a database with PGMQ 0.20 and a queue `orders` in use."""
    with (
        extension_files(server, servers_folder, FILES) as path,
        empty_database.connect() as connection,
    ):
        connection.execute(path)
        connection.execute("create extension pgmq")
        connection.execute(META + QUEUE.format("orders") + FUNCTIONS + MESSAGES)
        connection.execute("insert into public.pgmq_meta values ('orders')")
        yield connection


@pytest.mark.slow
def test_the_queue_keeps_its_messages_and_the_old_names_work(old):
    before = (
        rows(old, QUEUED.format("pgmq_orders")),
        rows(old, ARCHIVED.format("pgmq_orders_archive")),
    )

    plan = schema.plan_adoption(old)
    assert schema.adopt(old) == plan.steps
    assert plan.objections == ()
    assert any("queue 'orders'" in step for step in plan.steps)

    assert (
        rows(old, QUEUED.format("pgmq.q_orders")), rows(old, ARCHIVED.format("pgmq.a_orders"))
    ) == before  # fmt: skip
    assert len(before[0]) == 15
    assert rows(old, FOUND) == []
    assert schema.verify(old) == ()
    assert schema.plan_adoption(old) == schema.Adoption(steps=(), objections=())
    assert value(old, "select pgmq_send('orders', '{}')") == 21
    assert rows(old, "select msg_id from pgmq_read('orders', 60, 2)") == [(6,), (7,)]
    assert value(old, "select pgmq_archive('orders', 6)") is True
    assert value(old, "select pgmq_delete('orders', 1)") is True
    assert rows(old, "select * from pgmq_list_queues()") == rows(
        old, "select * from public.pgmq_meta"
    )
    assert str(value(old, "select created_at::date from pgmq_meta")) == "2023-08-30"
    assert value(old, "select pgmq_drop_queue('orders')") is True


@pytest.mark.slow
def test_an_adopted_queue_is_like_a_new_one(old):
    schema.adopt(old)
    old.execute("select pgmq.create('fresh')")
    parts = """
        select replace(indexdef, '{0}', 'x') from pg_indexes where tablename in ('q_{0}', 'a_{0}')
        union all
        select replace(relname, '{0}', 'x') || relkind::text || relowner::regrole::text from pg_class
        where relname ~ '_{0}(_|$)' and relnamespace = 'pgmq'::regnamespace and relkind <> 'i'
        union all
        select replace(attrelid::regclass::text, '{0}', 'x') || '.' || attname || ' ' || attidentity::text || attnotnull
        from pg_attribute where attrelid in ('pgmq.q_{0}'::regclass, 'pgmq.a_{0}'::regclass) and attnum > 0
        order by 1"""

    assert rows(old, parts.format("orders")) == rows(old, parts.format("fresh"))


@pytest.mark.slow
def test_a_database_where_pgsluice_is_installed_already_is_adopted(old):
    schema.install(old)
    old.execute("select pgmq.create('other')")

    with pytest.raises(SchemaError, match=r"pgsluice schema adopt.*do not drop the extension"):
        schema.install(old, legacy=True)
    schema.adopt(old)

    assert value(old, "select count(*) from pgmq.q_orders") == 15
    assert rows(old, "select queue_name from pgmq_list_queues()") == [("orders",), ("other",)]
    assert schema.verify(old) == ()


@pytest.mark.slow
def test_tables_that_were_detached_from_the_extension_are_adopted(old):
    old.execute(
        """alter extension pgmq drop table pgmq_meta; alter extension pgmq drop table pgmq_orders;
        alter extension pgmq drop table pgmq_orders_archive; drop extension pgmq; drop table pgmq_meta"""
    )

    schema.adopt(old)

    assert value(old, "select count(*) from pgmq.q_orders") == 15
    assert value(old, "select pgmq_send('orders', '{}')") == 21


@pytest.mark.slow
def test_a_role_that_used_the_queue_still_can(old, role):
    old.execute(f"grant select, insert, update, delete on public.pgmq_orders to {role}")
    old.execute(f"grant select, insert on public.pgmq_orders_archive to {role}")
    schema.adopt(old)
    try:
        old.execute(f"set role {role}")

        assert value(old, "select pgmq_send('orders', '{}')") == 21
        assert rows(old, "select msg_id from pgmq_read('orders', 60, 1)") == [(6,)]
        assert value(old, "select pgmq_archive('orders', 6)") is True
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            old.execute("select pgmq_drop_queue('orders')")
    finally:
        old.execute("reset role")
        old.execute(f"drop owned by {role} cascade")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "objection"),
    [
        ("create view public.mine as select * from pgmq_meta", "view public.mine depends on table public.pgmq_meta"),
        ("create view public.mine as select pgmq_send('a', '1')", "view public.mine depends on function public.pgmq_send"),
        ("alter table pgmq_meta add note text", "public.pgmq_meta.note"),
        ("create function public.pgmq_pop(a int) returns int return 1", "function public.pgmq_pop.integer. has a name"),
        ("insert into pgmq_meta values ('ORDERS')", "queues 'orders' and 'ORDERS' share the table"),
    ],
)  # fmt: skip
def test_objects_that_adoption_would_destroy_are_objections(old, made, objection):
    old.execute(made)

    with pytest.raises(SchemaError, match=objection):
        schema.adopt(old)

    assert value(old, "select count(*) from pgmq_orders") == 15
    assert rows(old, FOUND) == [("pgmq",)]


@pytest.mark.slow
def test_a_partitioned_queue_is_adopted_after_the_steps_of_its_objection(old):
    old.execute(
        """create table public.pgmq_parts (msg_id bigserial not null, read_ct int default 0 not null,
        enqueued_at timestamptz default now() not null, vt timestamptz not null, message jsonb) partition by range (msg_id);
        create table public.pgmq_parts_p0 partition of public.pgmq_parts for values from (0) to (100);
        insert into public.pgmq_parts (vt) select now() from generate_series(1, 9);
        alter extension pgmq add table public.pgmq_parts; insert into pgmq_meta values ('parts')"""
    )

    with pytest.raises(
        SchemaError, match="alter extension pgmq drop table public.pgmq_parts; alter"
    ):
        schema.adopt(old)
    old.execute(
        """alter extension pgmq drop table public.pgmq_parts; alter table public.pgmq_parts rename to old_parts;
        create table public.pgmq_parts as table public.old_parts"""
    )
    schema.adopt(old)

    assert value(old, "select pgmq_send('parts', '{}')") == 10
    assert value(old, "select count(*) from old_parts") == 9


@pytest.mark.slow
def test_the_command_names_its_steps(old, empty_database):
    done = CliRunner().invoke(cli, ["schema", "adopt", "--dsn", empty_database.url])

    assert done.exit_code == 0, done.output
    assert "move queue 'orders' with its messages" in done.output
    assert value(old, "select count(*) from pgmq.a_orders") == 3
