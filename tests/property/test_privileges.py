"""Privileges: no role can read or change more than declared, by any function or table.

Each call runs in a session of the role, in a transaction that is rolled back, with hostile
arguments. Changes are those that the server counts for the transaction in
`pg_stat_xact_all_tables`, catalogs included. Results are searched for marks in messages, events,
keys and a table of another owner.

Arguments are drawn at random from a list for each type. Not covered: sequences and advisory locks, which no rollback undoes, and effects after the statement timeout.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest

from support import rows
from support.servers import Database

MESSAGE, EVENT, KEY, TABLE = "MESSAGE-SECRET", "EVENT-SECRET", "KEY-SECRET", "TABLE-SECRET"
SCHEMAS = ["pgmq", "pgq", "pgq_coop", "sluice"]
STATEMENT_TIMEOUT_MS = 250

# Tables by what they hold. The first match decides; a table that matches nothing is `other`.
KINDS = (
    ("queue", r"pgmq\.q_"),
    ("archive", r"pgmq\.a_"),
    ("event", r"pgq\.event_[0-9]+"),
    ("tick", r"pgq\.tick_[0-9]+"),
    ("position", r"pgq\.(position|subscriber|consumer|subconsumer|retry)"),
    (
        "claim",
        r"sluice\.(claim|outcome|redelivery|key_|turn|waiting_event|parked_key|share_)",
    ),
    ("dead", r"sluice\.dead_letter"),
    ("delivery", r"sluice\.(attempt|queue_start|inbox|result|queue_stream|queue_turn|started)"),
    ("send", r"sluice\.(deduplication_key|sink|stage_|stage|delayed)"),
    ("lock", r"sluice\.lock$"),
    ("failure", r"sluice\.failure$"),  # a claim retries due events, and records a log that fails
    # A worker or pipeline reports itself, a worker the event types of its handlers, and those without a handler.
    ("registry", r"sluice\.(process|group_type)"),
    ("ours", r"(pgmq|pgq|pgq_coop|sluice)\."),
    ("toast", r"pg_toast\."),
    ("catalog", r"pg_"),
)


@dataclass(frozen=True)
class Rights:
    """Rights that a role has through any function.

    Attributes:
        changes: Kinds of tables whose rows may be changed; None for all of ours, and the catalog.
        marks: Marks that it may read.
    """

    grants: tuple[str, ...] = ()
    changes: frozenset[str] | None = frozenset()
    marks: frozenset[str] = field(default_factory=frozenset)


ROLES = {
    "plain": Rights(),
    "monitor": Rights(("sluice_monitor",)),
    "writer": Rights(("sluice_writer",), frozenset({"queue", "event", "send", "position", "lock"})),
    "reader": Rights(
        ("sluice_reader",),
        frozenset(
            {
                "queue",
                "archive",
                "position",
                "claim",
                "dead",
                "delivery",
                "send",
                "event",
                "lock",
                "failure",
                "registry",
            }
        ),
        frozenset({MESSAGE, EVENT, KEY}),
    ),
    "admin": Rights(("sluice_admin",), None, frozenset({MESSAGE, EVENT, KEY})),
    "pgq_writer": Rights(("pgq_writer",), frozenset({"event", "send", "position", "lock"})),
    "pgq_reader": Rights(
        ("pgq_reader",),
        frozenset(
            {"position", "event", "claim", "dead", "delivery", "lock", "failure", "registry"}
        ),
        frozenset({EVENT, KEY}),
    ),
    "pgq_admin": Rights(("pgq_admin",), None, frozenset({EVENT, KEY})),
}
OUTSIDE = re.compile(
    r"^(public\.|pg_catalog\.pg_(auth|database|tablespace|parameter|replication|subscription|user))"
)

TEXTS = [
    "orders",
    "many",
    "changes",
    "audit",
    "workers",
    "keyed",
    "account",
    "public.secret",
    "secret",
    "pg_authid",
    "pg_catalog.pg_authid",
    "pgmq.meta",
    "sluice_owner",
    "q_orders",
    "a_orders",
    "event_1",
    "",
    " ",
    None,
    "x" * 200,
    "o'rders",
    'a"b',
    "%I",
    "$1",
    "'; drop table public.secret; --",
    "orders; select pg_sleep(9)",
    "../../etc/passwd",
    "*",
    "#",
    "null",
    "0",
    "-1",
    "{}",
    "1 day",
    "select * from public.secret",
    "public.trap()",
    "public.note_call",
    "importer",
    "nightly",
    "ä\u200bö",
    "done",
    "reject",
    "UTC",
]
INTEGERS = [None, -2147483648, -1, 0, 1, 2, 3, 7, 1000, 2147483647]
VALUES: dict[str, list[str | None]] = {
    "text": TEXTS,  # type: ignore[dict-item]
    "name": TEXTS,  # type: ignore[dict-item]
    "anyelement": TEXTS,  # type: ignore[dict-item]
    "integer": [None if n is None else str(n) for n in INTEGERS],
    "bigint": [None if n is None else str(n) for n in [*INTEGERS, -(2**63), 2**63 - 1]],
    "oid": ["0", "1", "1259", "1260", "4294967295", None],
    "double precision": ["NaN", "Infinity", "-Infinity", "0", "1e308", None],
    "boolean": ["true", "false", None],
    "bytea": ["\\x00", None],
    "date": ["infinity", "2020-01-01", None],
    "interval": ["0", "-1 day", "1 day", "178000000 years", None],
    "timestamp with time zone": ["infinity", "-infinity", "now", "2020-01-01", "294276-12-31", None],
    "timestamp without time zone": ["infinity", "-infinity", "2020-01-01", None],
    "json": ["{}", "[]", "1", "null", None],
    "jsonb": [
        "{}", "[]", "1", "null", '{"n": 1}', '{"x-pgmq-group": "a"}', '{"dead_letter_ids": [1, 2]}', '{"key": "ev_extra1"}',
        '{"queue_name": "orders"}', '{"sql": "select * from public.secret"}', None,
    ],
    "pg_snapshot": ["1:1:", "3:2000000000:", "100:200:100,150", None],
    "xid8": ["0", "3", "18446744073709551615", None],
    "regclass": ["public.secret", "pg_authid", "pgmq.meta", "pgmq.q_orders", "public.account", "pgq.tick", "sluice.claim", None],
    "regtype": ["text", "pgmq.message_record", None],
}  # fmt: skip
ARGUMENTS = """
select p.oid::regprocedure::text, p.oid::bigint, format('%%I.%%I', n.nspname, p.proname), p.prokind::text,
    array(
        select format('%%s %%s', coalesce(p.proargnames[a.i], ''), format_type(a.t, null))
        from unnest(p.proargtypes) with ordinality as a (t, i)
        order by a.i
    )
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname = any (%s) and p.prokind in ('f', 'p') and p.prorettype <> 'trigger'::regtype
order by 1
"""
# Plausible arguments by parameter name; with others most calls fail at their first argument.
FITTING: dict[str, list[str | None]] = {
    "queue_name": ["orders", "many", "changes"],
    "i_queue_name": ["changes"],
    "i_log_name": ["changes"],
    "log_name": ["changes"],
    "group_name": ["workers", "keyed"],
    "consumer_name": ["audit", "keyed", None],
    "target_queue_name": ["orders", None],
    "filter": ["{}", '{"reason": "rejected"}'],
    "dead_letter_ids": ["{1,2}"],
    "i_consumer_name": ["audit"],
    "x_consumer_id": ["audit"],
    "i_consumer": ["audit"],
    "msg_id": ["1", "2", "3", "4", "8"],
    "msg_ids": ["{1,2,3,4,8}", "{20}"],
    "read_ct": ["1"],
    "read_cts": ["{1,1,1,1,1}", "{1}"],
    "i_batch_id": ["1"],
    "batch_id": ["1"],
    "x_batch_id": ["1"],
    "i_event_id": ["1", "2"],
    "event_id": ["1", "2"],
    "ev_id": ["1", "2"],
    "i_queue_id": ["1"],
    "queue_id": ["1"],
    "group_id": ["1", "2"],
    "source_table": ["public.account", "public.secret", "pgmq.q_orders"],
    "qty": ["1", "100"],
    "limit_rows": ["100"],
    "delay": ["0"],
    "msg": ['{"n": 1}'],
    "message": ['{"n": 1}'],
    "cron": ["* * * * *"],
    "every": ["1 day"],
    "name": ["nightly", "importer", "mailer"],
    "sink_name": ["importer"],
    "lease": ["1 minute"],
    "options": ["{}"],
    "headers": [None],
}
FILL = f"""
create table public.secret (id integer primary key, word text);
insert into public.secret values (1, '{TABLE}');
create table public.account (id integer primary key, balance integer);
create function public.trap() returns void language sql as 'insert into public.secret values (2, ''x'')';
select pgmq.create('orders');
select pgmq.create_partitioned('many', '1000', '5000');
select sluice.set_queue_options('orders', '{{"deduplication_window": "1 hour"}}');
select sluice.send('orders', '{{"word": "{MESSAGE}"}}'::jsonb, deduplication_key => '{KEY}');
select pgmq.send_batch('orders', array_fill('{{"word": "{MESSAGE}"}}'::jsonb, array[20]), array_fill('{{"x-pgmq-group": "{KEY}"}}'::jsonb, array[20]));
select pgmq.send_batch('many', array_fill('{{"word": "{MESSAGE}"}}'::jsonb, array[20]));
select pgmq.archive('orders', 2::bigint);
select count(*) from pgmq.read('orders', 600, 5);
select sluice.reject('orders', 3::bigint, 1, '{MESSAGE}');
select sluice.schedule('nightly', 'orders', '{{"word": "{MESSAGE}"}}'::jsonb, '0 3 * * *');
select sluice.sink_commit('importer', 7);
select sluice.once('mailer', '{KEY}');
select sluice.store_results('orders', '{{2}}', '[{{"word": "{MESSAGE}"}}]', '1 hour');
select sluice.set_queue_options('orders', '{{"key_concurrency": 1, "rate": 1000, "when_waiting": "park"}}');
insert into sluice.parked_key select limits_id, 1, '{KEY}', 8, now() from sluice.queue_settings;
select pgmq.bind_topic('orders.*', 'orders');
select pgq.create_queue('changes');
select pgq.register_consumer('changes', 'audit');
select sluice.create_group('changes', 'workers');
select sluice.create_group('changes', 'keyed', '{{"key": "ev_extra1", "max_attempts": 1, "when_waiting": "park"}}');
select sluice.capture('public.account', 'changes');
insert into public.account values (1, 100);
select pgq.insert_event('changes', 't', '{EVENT}', '{KEY}', null, null, null) from generate_series(1, 20);
select sluice.insert_event('changes', 't', '{EVENT}', delay => interval '1 hour');
select pgq.force_tick('changes');
select pgq.ticker('changes');
select count(*) from sluice.claim('changes', 'workers', 5);
select count(*) from sluice.claim('changes', 'keyed', 5);
select pgq.next_batch('changes', 'audit');
insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, ev_txid, ev_data, key, reason) select 'changes', 'keyed', 20, 1, now(), '9', '{EVENT}', '{KEY}', 'rejected';
"""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Function:
    """A function of ours; its arguments are pairs of name and type."""

    signature: str
    name: str
    kind: str
    arguments: tuple[tuple[str, str], ...]

    def call(self, values: list[str | None]) -> str:
        arguments = ", ".join(
            f"{_literal(text)}::{'text' if type_ == 'anyelement' else type_}"
            for (_, type_), text in zip(self.arguments, values, strict=True)
        )
        if self.kind == "p":
            return f"call {self.name}({arguments})"
        return f"select f::text from {self.name}({arguments}) as f"


def _literal(text: str | None) -> str:
    return "null" if text is None else "'" + text.replace("'", "''") + "'"


@contextmanager
def filled(database: Database) -> Iterator[dict[str, str]]:
    """Fill a database; yield the names of its login roles by their granted role."""
    names = {right: f"fuzz_{right}_{next(_numbers)}" for right in ROLES}
    with database.connect() as admin:
        for right, name in names.items():
            admin.execute(f"create role {name} login")
            for granted in ROLES[right].grants:
                admin.execute(f"grant {granted} to {name}")
        for statement in FILL.split(";\n"):
            if statement.strip():
                admin.execute(statement)
    try:
        yield names
    finally:
        with database.connect() as admin:
            for name in names.values():
                admin.execute(f"drop owned by {name} cascade")
                admin.execute(f"drop role {name}")


def as_role(database, name: str) -> psycopg.Connection:
    connection = psycopg.connect(
        database.url.replace("postgres@", f"{name}@"),
        options=f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c client_min_messages=error",
    )
    connection.autocommit = False
    return connection


def functions(connection: psycopg.Connection) -> list[Function]:
    return [
        Function(signature, name, kind, tuple(tuple(a.split(" ", 1)) for a in arguments))  # type: ignore[misc]
        for signature, _, name, kind, arguments in rows(connection, ARGUMENTS, SCHEMAS)
    ]


def composites(
    connection: psycopg.Connection, found: list[Function]
) -> dict[str, list[str | None]]:
    """Return a row of each table whose type is an argument, as text, and null."""
    values: dict[str, list[str | None]] = {}
    for type_ in sorted(
        {t.removesuffix("[]") for f in found for _, t in f.arguments} - set(VALUES)
    ):
        values[type_] = [None]
        if rows(
            connection, "select from pg_class where oid = to_regclass(%s) and relkind <> 'c'", type_
        ):
            kept = rows(connection, f"select t::text from {type_} as t limit 1")
            values[type_] += [text for (text,) in kept]
    return values


def draw(
    rng: random.Random, name: str, type_: str, values: dict[str, list[str | None]]
) -> str | None:
    if name in FITTING and rng.random() < 0.8:
        return rng.choice(FITTING[name])
    if type_.endswith("[]"):
        if rng.random() < 0.1:
            return None
        items = [rng.choice(values[type_.removesuffix("[]")]) for _ in range(rng.randint(0, 3))]
        return "{" + ",".join("null" if i is None else _quoted(i) for i in items) + "}"
    return rng.choice(values[type_])


def _quoted(item: str) -> str:
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def kind_of(table: str) -> str:
    return next(
        (kind for kind, pattern in KINDS if re.match(pattern, table.removeprefix("pg_catalog."))),
        "other",
    )


TABLES = """
select format('%%I.%%I', n.nspname, c.relname), array_agg(quote_ident(a.attname) order by a.attnum)
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where n.nspname = any (%s) and c.relkind in ('r', 'p', 'v', 'S')
group by 1
order by 1
"""
CHANGES = """
select format('%s.%s', schemaname, relname), n_tup_ins + n_tup_upd + n_tup_del
from pg_stat_xact_all_tables
where n_tup_ins + n_tup_upd + n_tup_del > 0
"""


def faults_of_a_call(
    connection: psycopg.Connection, role: str, rights: Rights, statement: str
) -> list[str]:
    """Call a function as a role, roll back, and return violations of the role's rights."""
    faults: list[str] = []
    try:
        before = dict(rows(connection, CHANGES))
        try:
            found = rows(connection, statement)
        except psycopg.Error as error:
            text = str(error)
            if error.sqlstate == "XX000":
                faults.append(f"internal error: {text}")
            found = [(text,)]
            connection.rollback()
        else:
            changed = {t for t, n in rows(connection, CHANGES) if n > before.get(t, 0)}
            faults += [f"changes {t}" for t in sorted(changed) if not _may_change(rights, t)]
            who = rows(connection, "select current_user, session_user")
            if who != [(role, role)]:
                faults.append(f"goes on as {who}")
        read = {m for m in (MESSAGE, EVENT, KEY, TABLE) if any(m in str(row) for row in found)}
        given = {m for m in read if m in statement}
        faults += [f"reads {mark}" for mark in sorted(read - given - rights.marks)]
    finally:
        if not connection.closed:
            connection.rollback()
    return faults


def _may_change(rights: Rights, table: str) -> bool:
    if OUTSIDE.match(table):
        return False
    kind = kind_of(table)
    if rights.changes is None:
        return kind != "other"
    return kind in rights.changes or (kind == "toast" and bool(rights.changes))


def fuzz(
    database: Database, world: dict[str, str], seed: int, calls: int, only: str = ""
) -> tuple[list[str], int]:
    """Call functions `calls` times as each role; return faults, and the number of correct calls."""
    rng = random.Random(seed)
    faults: list[str] = []
    faultless = 0
    with database.connect() as admin:
        found = [f for f in functions(admin) if only in ("", f.name)]
        values = VALUES | composites(admin, found)
        may = {
            (right, signature)
            for right, name in world.items()
            for (signature,) in rows(
                admin,
                "select p.oid::regprocedure::text from pg_proc as p where has_function_privilege(%s, p.oid, 'execute')",
                name,
            )
        }
    for right, name in world.items():
        connection = as_role(database, name)
        for function in found:
            # A function without EXECUTE is called once, as it is refused with any arguments.
            for _ in range(calls if (right, function.signature) in may else 1):
                statement = function.call([draw(rng, *a, values) for a in function.arguments])
                if connection.closed:
                    connection = as_role(database, name)
                wrong = faults_of_a_call(connection, name, ROLES[right], statement)
                faults += [f"{right}: {fault}: {statement}" for fault in wrong]
                faultless += not wrong
        connection.close()
    return faults, faultless


@pytest.fixture
def world(database_18) -> Iterator[dict[str, str]]:
    with filled(database_18) as names:
        yield names


@pytest.mark.long
def test_no_role_does_more_with_many_arguments_on_any_version(database, seed):
    with filled(database) as world:
        faults, _ = fuzz(database, world, seed, calls=12)

    assert not faults, f"seed {seed}:\n" + "\n".join(faults[:60])


@pytest.mark.slow
def test_no_role_does_more_through_any_function_than_its_rights(database_18, world, seed):
    faults, calls = fuzz(database_18, world, seed, calls=2)

    assert calls > 1000
    assert not faults, f"seed {seed}:\n" + "\n".join(faults[:60])


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("update public.secret set word = 'x' returning word", "changes public.secret"),
        ("select s.word from public.secret as s", f"reads {TABLE}"),
        ("select q.message::text from pgmq.q_orders as q limit 1", f"reads {MESSAGE}"),
        ("update pg_catalog.pg_proc set prosecdef = true where proname = 'trap' returning 'x'", "changes pg_catalog.pg_proc"),
        ("delete from pgmq.q_orders returning 'x'", "changes pgmq.q_orders"),
    ],
)  # fmt: skip
def test_a_planted_function_that_does_more_is_reported(database_18, world, seed, body, fault):
    with database_18.connect() as admin:
        admin.execute(
            "create function sluice.planted(queue_name text) returns setof text language sql security definer "
            f"as $$ {body} $$"
        )
        admin.execute(f"grant execute on function sluice.planted(text) to {world['monitor']}")

    faults, _ = fuzz(database_18, world, seed, calls=1, only="sluice.planted")

    assert any(f.startswith(f"monitor: {fault}: ") for f in faults), faults


@pytest.mark.slow
def test_no_role_reads_more_from_any_table_than_its_rights(database_18, world):
    with database_18.connect() as admin:
        tables = rows(admin, TABLES, [*SCHEMAS, "public"])
    faults = []
    for right, name in world.items():
        with as_role(database_18, name) as connection:
            connection.autocommit = True
            for table, columns in tables:
                for column in columns:
                    try:
                        found = str(rows(connection, f"select {column} from {table}"))
                    except psycopg.errors.InsufficientPrivilege:
                        continue
                    read = {mark for mark in (MESSAGE, EVENT, KEY, TABLE) if mark in found}
                    faults += [
                        f"{right} reads {m} in {table}.{column}" for m in read - ROLES[right].marks
                    ]

    assert len(tables) > 50
    assert not faults, "\n".join(faults)


# Direct rights on tables, by role and kind of table. No other table of ours may be changed without
# functions.
DIRECT = {
    "writer": {"queue": "insert", "event": "insert"},
    "pgq_writer": {"event": "insert"},
    "reader": {
        "queue": "update delete",
        "archive": "insert",
        "dead": "insert",
        "delivery": "insert update delete",
        "claim": "insert",
    },
}
WRITABLE = """
select format('%%I.%%I', n.nspname, c.relname), p.privilege
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
cross join unnest(array['insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as p (privilege)
where n.nspname = any (%s) and c.relkind in ('r', 'p', 'v')
  and (
      has_table_privilege(%s, c.oid, p.privilege)
      or p.privilege in ('insert', 'update', 'references') and has_any_column_privilege(%s, c.oid, p.privilege)
  )
order by 1, 2
"""


def test_no_role_may_change_more_tables_directly_than_declared(database_18, world):
    faults = []
    with database_18.connect() as admin:
        for right, name in world.items():
            if "admin" in right:
                continue
            for table, privilege in rows(admin, WRITABLE, SCHEMAS, name, name):
                if privilege not in DIRECT.get(right, {}).get(kind_of(table), "").split():
                    faults.append(f"{right} may {privilege} {table}")

    assert not faults, "\n".join(faults)


def test_no_role_may_create_anything_in_our_schemas(database_18, world):
    with database_18.connect() as admin:
        may = rows(
            admin,
            "select r, n from unnest(%s::text[]) as r, unnest(%s::text[]) as n where has_schema_privilege(r, n, 'create')",
            list(world.values()),
            SCHEMAS,
        )

    assert may == []
