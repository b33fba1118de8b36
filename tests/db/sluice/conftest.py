"""Fixtures: queues, logs, share groups, dead letters and roles."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest

from support.dead_letters import Letters, make_letters
from support.shards import BEGIN, FINISH, FIRST
from support.share_groups import create_group, make_log


@pytest.fixture
def claimed(connection: psycopg.Connection) -> tuple[int, int]:
    """The claim (msg_id, read_ct) of the only message of the queue `orders`."""
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send('orders', '{\"n\": 1}'::jsonb, '{\"h\": 2}'::jsonb)")
    return connection.execute("select msg_id, read_ct from pgmq.read('orders', 30, 1)").fetchone()


@pytest.fixture
def shard(connection: psycopg.Connection) -> psycopg.Connection:
    """A connection to the database as the shard `a` of generation 1."""
    connection.execute(BEGIN, ("a", 1, FIRST, None))
    connection.execute(FINISH, (1,))
    return connection


@pytest.fixture
def captured(connection: psycopg.Connection) -> str:
    connection.execute("create table account (id int primary key, name text)")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('account', 'changes')")
    return "account"


@pytest.fixture
def log(connection: psycopg.Connection) -> psycopg.Connection:
    """A log with the ticks 1 to 5 and ten events between consecutive ticks."""
    connection.execute("select pgq.create_queue(%s)", ("log",))
    for _ in range(4):
        for _ in range(10):
            connection.execute("select pgq.insert_event(%s, 't', 'd')", ("log",))
        connection.execute("select sluice.log_tick(%s)", ("log",))
    return connection


@pytest.fixture
def group(connection: psycopg.Connection) -> str:
    """A share group `workers` at the beginning of the log `changes`, without back-off jitter."""
    make_log(connection)
    create_group(connection, backoff_jitter=False)
    return "workers"


@pytest.fixture
def orders(connection: psycopg.Connection) -> psycopg.Connection:
    """The queue `orders`, and an empty queue `again`.

    1 to 4 are archived, 5 is dead-lettered, 6 in flight, 7 delayed, 8 and 9 visible.
    """
    connection.execute("select pgmq.create('orders'), pgmq.create('again')")
    connection.execute(
        "select pgmq.send_batch('orders', array_agg(jsonb_build_object('n', n, 'odd', n % 2 = 1)), "
        "array_agg(jsonb_build_object('h', n % 3))) from generate_series(1, 9) as n"
    )
    connection.execute("select pgmq.archive('orders', array[1, 2, 3, 4]::bigint[])")
    connection.execute("select msg_id from pgmq.read('orders', 600, 2)")
    connection.execute("select sluice.reject('orders', 5, 1, 'bad shape', 'trace')")
    connection.execute("select pgmq.set_vt('orders', 7, 600)")
    connection.execute("select pg_stat_force_next_flush()")  # the server counts finished messages
    return connection


@pytest.fixture
def buffers(connection: psycopg.Connection):
    """A function that returns the number of pages a query reads in its second run."""

    def count(query: str) -> int:
        connection.execute(query)
        (plan,) = connection.execute(
            f"explain (analyze, buffers, format json, timing off) {query}"
        ).fetchone()
        top = plan[0]["Plan"]
        return sum(
            top[name]
            for name in (
                "Shared Hit Blocks", "Shared Read Blocks", "Local Hit Blocks", "Local Read Blocks",
            )
        )  # fmt: skip

    return count


@pytest.fixture
def large(connection: psycopg.Connection) -> psycopg.Connection:
    """The queue `large`: 100,000 messages, and 100,000 archived ones with times a second apart."""
    connection.execute("select pgmq.create('large')")
    connection.execute(
        "insert into pgmq.q_large (vt, message) "
        "select now(), jsonb_build_object('n', n) from generate_series(1, 100000) as n"
    )
    connection.execute(
        "insert into pgmq.a_large (msg_id, vt, archived_at, message) "
        "select n, now(), '2026-01-01 00:00+00'::timestamptz + make_interval(secs => n), jsonb_build_object('n', n) "
        "from generate_series(200001, 300000) as n"
    )
    connection.execute("analyze pgmq.q_large, pgmq.a_large")
    return connection


@pytest.fixture
def as_member(connection: psycopg.Connection, role: str):
    """A function that runs a query as a member of a role."""

    def run(member_of: str, query: str) -> list[tuple]:
        connection.execute(f"grant {member_of} to {role}")
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(f"set local role {role}")
                return connection.execute(query).fetchall()
        finally:
            connection.execute(f"revoke {member_of} from {role}")

    return run


@pytest.fixture
def dead(connection: psycopg.Connection) -> psycopg.Connection:
    """The log `events` with the share group `g`, and a queue `again`.

    The group's events 1 to 6 are dead-lettered: 1 to 5 with the reason 'bad', 6 with 'worse'.
    """
    connection.execute("select pgq.create_queue('events'), pgmq.create('again')")
    connection.execute(
        "select sluice.create_group('events', 'g'), sluice.create_group('events', 'h')"
    )
    connection.execute(
        "select pgq.insert_event('events', case when n % 2 = 1 then 'odd' else 'even' end, n::text, 'x', null, null, 'z')"
        " from generate_series(1, 6) as n"
    )
    (claim,) = connection.execute(
        "select distinct claim_id from sluice.claim('events', 'g', 10)"
    ).fetchone()
    connection.execute(
        "select sluice.acknowledge('events', 'g', %(claim)s, 'reject', '{1, 2, 3, 4, 5}', null, 'trace', 'bad'),"
        " sluice.acknowledge('events', 'g', %(claim)s, 'reject', '{6}', null, null, 'worse')",
        {"claim": claim},
    )
    return connection


@pytest.fixture(params=[False, True], ids=["queue", "share group"])
def letters(connection: psycopg.Connection, request: pytest.FixtureRequest) -> Letters:
    """Dead letters of a queue or of a share group, with equal contents."""
    return make_letters(connection, is_group=request.param)


ROLES = {
    "importer": ("sluice_writer", "sluice_reader"),
    "stranger": ("sluice_writer", "sluice_reader"),
    "administrator": ("sluice_admin",),
}


@pytest.fixture
def acting(database, connection):
    """A context manager that opens a session as one of the roles, which each test creates anew."""
    names = {name: f"{name}_{database.name}" for name in ROLES}
    for name, memberships in ROLES.items():
        connection.execute(
            f'create role "{names[name]}" login in role {", ".join(memberships)}'.encode()
        )

    @contextmanager
    def act(name):
        with database.connect(user=names[name]) as session:
            yield session

    act.names = names
    yield act
    for name in names.values():
        connection.execute(f'drop owned by "{name}"; drop role "{name}"'.encode())


@pytest.fixture
def keyed(connection):
    """The queue `orders` with the messages 1 to 6 of the keys k, l, m, k, l and m; 7 has no key."""
    connection.execute("select pgmq.create('orders')")
    for n, key in enumerate("klmklm", 1):
        connection.execute(
            "select pgmq.send('orders', to_jsonb(%s::integer), jsonb_build_object('x-pgmq-group', %s::text))",
            (n, key),
        )
    connection.execute("select pgmq.send('orders', '7')")
    return connection
