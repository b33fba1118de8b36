"""Thousands of queues and logs: a transaction locks a bounded number of tables.

The lock table of the server in these tests has room for a few dozen queues and logs only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import SchemaError
from support import replace_in, rows, value
from support.servers import FAST, Database

LOGS = 40
QUEUES = 40


@pytest.fixture(scope="module")
def small_server(servers_folder) -> Iterator[EmbeddedServer]:
    folder = servers_folder / "many"
    folder.mkdir(mode=0o755)
    options = {**FAST, "max_locks_per_transaction": "24", "max_connections": "40"}
    server = EmbeddedServer(folder / "pg18", version=18, options=options)
    server.start()
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("create database many_template")
    with psycopg.connect(server.url("many_template"), autocommit=True) as connection:
        schema.install(connection)
    create(server.url("many_template"), LOGS, QUEUES)
    yield server
    server.stop("immediate")


@pytest.fixture
def many(small_server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(small_server.url(), autocommit=True) as admin:
        admin.execute("create database many template many_template")
        database = Database(small_server, "many")
        with database.connect() as connection:
            yield connection
        admin.execute("drop database many")


def create(url, logs, queues):
    """Create logs and queues, a few in each transaction and some hundreds in each session.

    A session caches each table that it has used, and becomes slow with many.
    """
    for kind, count in (
        ("pgq.create_queue('log ' || n)", logs),
        ("pgmq.create('queue_' || n)", queues),
    ):
        for n in range(1, count + 1, 200):
            with psycopg.connect(url, autocommit=True) as session:
                for first in range(n, min(n + 200, count + 1), 5):
                    session.execute(
                        f"select {kind} from generate_series({first}, {min(first + 4, count)}) as n"
                    )


def make_outdated(session):
    """Make all functions, privileges and settings of queues and logs differ from the release."""
    session.execute(
        r"""
        update pg_proc set prosrc = prosrc || E'\n-- old', proacl = null
        where pronamespace = 'pgmq'::regnamespace and proname ~ '^q_'
            or pronamespace = 'pgq'::regnamespace and proname ~ '^(event|tick)_[0-9]+_';
        update pg_class set reloptions = null, relreplident = 'd', relacl = null
        where relnamespace = 'pgmq'::regnamespace and relname ~ '^q_' and relkind = 'r'
            or relnamespace = 'pgq'::regnamespace and relname ~ '^(event|tick)_[0-9]+' and relkind = 'r'
        """
    )


def outdated(session):
    return value(session, "select count(*) from sluice._outdated()")


def most_locks(session, query):
    """Return a statement's rows and the number of its locks on user relations."""
    with session.transaction():
        found = rows(session, query)
        locks = value(
            session,
            "select count(*) from pg_locks where pid = pg_backend_pid() and relation >= 16384",
        )
    return found, locks


@pytest.mark.slow
def test_install_changes_no_queue_or_log_that_is_right(many):
    before = rows(
        many, "select oid, xmin from pg_proc where proname ~ '^(q|event|tick)_.*[0-9]' order by oid"
    )
    assert outdated(many) == 0

    schema.install(many)

    assert (
        rows(
            many,
            "select oid, xmin from pg_proc where proname ~ '^(q|event|tick)_.*[0-9]' order by oid",
        )
        == before
    )
    assert schema.verify(many) == ()


def test_upgrade_changes_queues_and_logs_in_bounded_transactions(many):
    make_outdated(many)
    assert outdated(many) == LOGS + 2 * QUEUES

    schema.upgrade(many)

    assert outdated(many) == 0
    assert schema.verify(many) == ()


@pytest.mark.slow
def test_upgrade_in_the_callers_transaction_names_what_remains(many):
    make_outdated(many)
    notices = []
    many.add_notice_handler(lambda n: notices.append((n.message_primary, n.message_hint)))

    with many.transaction():
        schema.upgrade(many)
        left = outdated(many)

    assert 0 < left < LOGS + 2 * QUEUES
    [(message, hint)] = [n for n in notices if "not brought to this release" in n[0]]
    assert message.startswith(f"{left} queues")
    assert "pgsluice schema upgrade" in hint
    # The old functions still work, and verify reports them.
    many.execute("select pgmq.send('queue_40', '{}')")
    assert len(rows(many, "select pgmq.read('queue_40', 30, 1)")) == 1
    many.execute("select pgq.ticker('log 40')")
    assert (
        schema.verify(many)[-1] == f"-and {left - 20} more queues, tables of queues or event logs"
    )
    schema.upgrade(many)
    assert schema.verify(many) == ()


@pytest.mark.slow
def test_queue_that_cannot_be_upgraded_is_named_and_stops_no_other(many):
    make_outdated(many)
    many.execute(
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ('a;b', false, false)"
    )
    notices = []
    many.add_notice_handler(lambda notice: notices.append(notice.message_primary))

    schema.upgrade(many)

    assert any("queue a;b is not brought to this release" in text for text in notices)
    assert outdated(many) == 0


@pytest.mark.slow
def test_queue_tables_of_others_are_handed_over_in_bounded_transactions(many):
    many.execute("create role old_owner")
    try:
        for kind in ("q", "a"):
            for n in range(1, QUEUES + 1):
                many.execute(f"alter table pgmq.{kind}_queue_{n} owner to old_owner")
        schema.install(many)
        owners = "select count(*) from pg_class where relowner = 'old_owner'::regrole"
        assert value(many, owners) == 0
    finally:
        many.execute("drop owned by old_owner")
        many.execute("drop role old_owner")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("select * from pgmq.metrics_all()", QUEUES),
        ("select * from pgmq.list_queues()", QUEUES),
        ("select * from pgq.get_queue_info()", LOGS),
        ("select * from pgq.get_consumer_info()", LOGS),
        ("select * from sluice.list_consumers()", LOGS),
        ("select * from sluice.notifier_queues()", QUEUES),
    ],
)
def test_list_of_all_keeps_no_lock_for_each(many, query, count):
    for n in range(1, LOGS + 1):
        many.execute("select pgq.register_consumer(%s, 'c')", (f"log {n}",))

    found, locks = most_locks(many, query)

    assert len(found) == count
    assert locks < 50


def test_notifier_looks_at_all_queues_in_bounded_locks(many):
    # 400 names, as only the first hundred keep their locks.
    names = "array(select queue_name from generate_series(1, 10) cross join pgmq.meta order by queue_name)"

    looked, locks = most_locks(many, f"select * from sluice.notifier_poll({names}, '{{}}', '{{}}')")

    assert len(looked) == 10 * QUEUES
    assert locks < 60


def check_woken(many, calls=LOGS):
    """Wake the consumers of all logs with events by several calls, each with few locks."""
    for n in range(1, LOGS + 1):
        many.execute("select sluice.create_group(%s, 'group')", (f"log {n}",))
        many.execute("select pgq.insert_event(%s, 'type', 'data')", (f"log {n}",))
    sweep(many, "sluice.tick", "tick")
    for n in range(1, LOGS + 1):
        many.execute("select pgq.insert_event(%s, 'type', 'data')", (f"log {n}",))

    woken = f"select n, current_setting('sluice.woken_' || n) from generate_series(1, {LOGS}) as n"
    before = set(rows(many, woken))

    for _ in range(calls):
        _, locks = most_locks(many, "select sluice.wake_groups()")
        assert (
            locks < 200
        )  # includes 80 on sequences, which a rollback to a savepoint does not release

    assert before & set(rows(many, woken)) == set()


@pytest.mark.slow
def test_waiting_consumers_of_all_logs_are_woken_in_bounded_locks(many):
    check_woken(many)


@pytest.mark.slow
def test_locks_of_a_call_that_wakes_the_consumers_of_all_logs_are_too_many(many):
    exit_ = "exit when woken = v_kept_max or logs = v_logs_max;"
    replace_in(many, "sluice._wake_groups()", exit_, "")

    with pytest.raises(AssertionError, match="< 200"):
        check_woken(many)


def look_at_ten_logs(many):
    """Let a call look at ten of the forty logs: this server has room for a hundred, not for thousands."""
    replace_in(many, "sluice._wake_groups()", "sluice._lock_slots() / 8, 2)", "10, 2)")


@pytest.mark.slow
def test_consumers_of_more_logs_than_a_call_looks_at_are_woken_by_further_calls(many):
    look_at_ten_logs(many)
    check_woken(many, calls=4 * LOGS)


@pytest.mark.slow
def test_logs_that_no_call_looks_at_are_not_woken_without_a_random_order(many):
    look_at_ten_logs(many)
    order = "order by case when v_is_many then random() end"
    replace_in(many, "sluice._wake_groups()", order, "")

    with pytest.raises(AssertionError, match="== set"):
        check_woken(many, calls=4 * LOGS)


def test_maintenance_looks_at_all_archives_in_bounded_locks(many):
    many.execute(
        "insert into sluice.queue_settings (queue_name, archive_retention) select queue_name, '1 day' from pgmq.meta"
    )

    _, locks = most_locks(many, "select * from sluice.maintain()")

    assert locks < 140  # includes 27 on the tables of samples


@pytest.mark.slow
def test_uninstall_drops_queues_and_logs_in_bounded_transactions(many):
    with pytest.raises(SchemaError, match="max_locks_per_transaction"), many.transaction():
        schema.uninstall(many, drop_data=True)
    assert schema.verify(many) == ()

    schema.uninstall(many, drop_data=True)

    assert schema.installed_versions(many) == ()


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_five_thousand_queues_and_logs_on_default_settings(servers_folder):
    folder = servers_folder / "thousands"
    folder.mkdir(mode=0o755)
    options = {**FAST, "max_locks_per_transaction": "64", "max_connections": "100"}
    server = EmbeddedServer(folder / "pg18", version=18, options=options)
    server.start()
    try:
        timed("install", lambda: with_session(server.url(), schema.install))
        timed("create 5,000 logs and 5,000 queues", lambda: create(server.url(), 5_000, 5_000))
        timed("register a consumer and create a group in each log", lambda: register(server.url()))
        run_everything(server.url())
    finally:
        server.stop("immediate")


def with_session(url, call):
    """Call a function with a new session, as cached tables slow a session down."""
    with psycopg.connect(url, autocommit=True) as session:
        return call(session)


def register(url):
    for first in range(1, 5_001, 200):
        with_session(
            url,
            lambda session, first=first: session.execute(
                "select pgq.register_consumer('log ' || n, 'consumer'), sluice.create_group('log ' || n, 'group') "
                f"from generate_series({first}, {first + 199}) as n"
            ),
        )


def run_everything(url):
    """Run each operation on many queues and logs, and print how long it took."""
    timed("install again", lambda: with_session(url, schema.install))
    assert timed("verify", lambda: with_session(url, schema.verify)) == ()
    timed("make all functions and rights differ", lambda: with_session(url, make_outdated))
    timed("upgrade all", lambda: with_session(url, schema.upgrade))
    assert timed("verify", lambda: with_session(url, schema.verify)) == ()
    assert timed("problems", lambda: with_session(url, schema.problems)) == ()
    for name, setting in (
        ("sluice.tick", "tick"),
        ("sluice.tick", "tick"),
        ("pgq.ticker", "ticker"),
        ("sluice.rotate", "rotate"),
    ):
        pages = timed(
            name, lambda n=name, s=setting: with_session(url, lambda each: sweep(each, n, s))
        )
        print(f"{name}: {pages} transactions")
    for query in (
        "select * from pgmq.metrics_all()",
        "select * from pgq.get_queue_info()",
        "select * from pgq.get_consumer_info()",
        "select * from sluice.list_consumers()",
        "select * from sluice.list_groups()",
        "select * from sluice.maintain()",
        "select * from sluice.maintain_groups()",
        "select sluice.wake_groups()",
        "select sluice.notify_ready()",
    ):
        timed(query, lambda q=query: with_session(url, lambda each: rows(each, q)))
    timed(
        "uninstall", lambda: with_session(url, lambda each: schema.uninstall(each, drop_data=True))
    )


def sweep(session, function, setting):
    """Call a paged function until it has processed all logs; return the number of calls."""
    session.execute("select set_config(%s, '>', false)", (f"sluice.{setting}_after",))
    for calls in range(1, 10_000):
        session.execute(f"select * from {function}()")
        if value(session, "select current_setting(%s)", f"sluice.{setting}_after") == ">":
            return calls
    raise AssertionError("does not end")


def timed(what, call):
    start_s = time.monotonic()
    result = call()
    print(f"{what}: {time.monotonic() - start_s:.1f} s", flush=True)
    return result
