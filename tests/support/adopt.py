"""A database of upstream PGMQ in use: its contents, and whether they changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from support import rows

# Visible, in flight, delayed and archived messages; an unlogged queue; topics; a listener; rights,
# policies and triggers.
_FILL = """
select pgmq.create('orders');
select pgmq.create_unlogged('fast');
select pgmq.create('Mixed Case-1');
select pgmq.send_batch('orders', array(select jsonb_build_object('n', n) from generate_series(1, {messages}) as n));
select pgmq.read('orders', 3600, {messages} / 10);
select pgmq.archive('orders', array(select msg_id from pgmq.q_orders order by msg_id limit {messages} / 20));
select pgmq.delete('orders', array(select msg_id from pgmq.q_orders order by msg_id limit {messages} / 100));
select pgmq.send_batch(
    'orders', array(select jsonb_build_object('late', n) from generate_series(1, {messages} / 10) as n), 3600
);
select pgmq.send('fast', '1', '{{"x-pgmq-group": "a"}}'::jsonb) from generate_series(1, 10);
select pgmq.archive('fast', array[1, 2]);
select pgmq.send('Mixed Case-1', '"größe"');
"""
_USERS = """
create table public.audit (n integer);
create function public.audit() returns trigger language plpgsql security definer as $$
begin insert into public.audit values (1); return null; end; $$;
create trigger users_own after insert on pgmq.q_orders for each statement execute function public.audit();
alter table pgmq.q_orders enable row level security;
create policy all_but_secret on pgmq.q_orders to {role} using (message ->> 'secret' is null) with check (true);
grant usage on schema pgmq to {role};
grant select, insert, update, delete on pgmq.q_orders, pgmq.a_orders to {role};
grant select on pgmq.meta to {role};
"""


def fill(connection: psycopg.Connection, messages: int = 1000) -> None:
    """Create queues and messages with PGMQ's functions."""
    connection.execute(_FILL.format(messages=messages))


def add_users(connection: psycopg.Connection, role: str) -> None:
    """Grant a role access to `orders`, and add a policy and a trigger to it."""
    connection.execute(_USERS.format(role=role))


def contents(connection: psycopg.Connection) -> dict[str, object]:
    """Return a checksum of every queue table with its partitions, and its sequence's position."""
    found: dict[str, object] = {}
    tables = rows(
        connection,
        """select relname, oid::regclass::text, oid::text from pg_class
           where relnamespace = 'pgmq'::regnamespace and relkind in ('r', 'p', 'S') and not relispartition
             and (relname ~ '^[qa]_' or relname in ('meta', 'topic_bindings')) and relname !~ 'NOTIFY'""",
    )
    for name, quoted, oid in tables:
        query = f"select * from {quoted}"
        if name.startswith(("q_", "a_")) and not name.endswith("_seq"):
            query = f"select msg_id, read_ct, enqueued_at, vt, message, headers from {quoted}"
        if name.endswith("_seq"):
            query = f"select last_value, is_called from {quoted}"
        [(checksum, count)] = rows(
            connection,
            f"select md5(string_agg(t::text, '' order by t::text)), count(*) from ({query}) as t",
        )
        found[name] = (oid, checksum, count)
    return found


def rights(connection: psycopg.Connection) -> list[tuple]:
    """Return the grants of users on the queues' tables, and users' policies and triggers.

    Without those of pg_monitor, which adoption revokes: it could read payloads.
    """
    return rows(
        connection,
        """select c.relname::text, '', a.grantee::regrole::text, a.privilege_type
           from pg_class as c cross join lateral aclexplode(c.relacl) as a
           where not (select r.rolsuper from pg_roles as r where r.oid = a.grantee) and c.relnamespace = 'pgmq'::regnamespace and c.relname ~ '^[qa]_' and c.relkind <> 'i'
             and c.relname !~ 'NOTIFY' and a.grantee::regrole::text !~ '^(sluice_|pg_monitor$)'
           union all
           select polrelid::regclass::text, polname::text, polroles::regrole[]::text, pg_get_expr(polqual, polrelid)
           from pg_policy
           union all
           select tgrelid::regclass::text, tgname::text, pg_get_triggerdef(oid), tgenabled::text
           from pg_trigger where tgname = 'users_own'
           union all
           select 'default', defaclrole::regrole::text, defaclobjtype::text, defaclacl::text
           from pg_default_acl where defaclobjtype <> 'f'
           order by 1, 2, 3, 4""",
    )


def without_grants(lines: list[str]) -> list[str]:
    """Return the lines of a fingerprint without grants, as an adoption keeps existing grants."""
    return [
        re.sub(r" acl .*?(?= comment|$)", "", line, count=1)
        for line in lines
        if not line.startswith("default grant")
    ]


DEBIAN_15 = Path("/usr/share/postgresql/15/extension")


def folder_of(server, servers_folder: Path) -> Path:
    """Return the extension folder of a server; skip the test if it is not writable."""
    if server.version >= 18:
        folder = servers_folder / "pgmq" / "extension"
        folder.mkdir(parents=True, exist_ok=True)
        for made in (folder.parent, folder):
            made.chmod(0o755)
        return folder
    if server.version != 15 or not os.access(DEBIAN_15, os.W_OK):
        pytest.skip(
            f"PostgreSQL {server.version} has no folder of extensions that a test may write to"
        )
    if (DEBIAN_15 / "pgmq.control").exists():
        pytest.skip(f"{DEBIAN_15} has a pgmq of its own")
    return DEBIAN_15


@contextmanager
def extension_files(server, servers_folder: Path, files: dict[str, str]) -> Iterator[str]:
    """Write files of an extension; yield the statement after which a session finds them."""
    folder = folder_of(server, servers_folder)
    try:
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)
        is_found = server.version < 18
        yield "" if is_found else f"set extension_control_path = '$system:{folder.parent}'"
    finally:
        for name in files:
            (folder / name).unlink(missing_ok=True)
