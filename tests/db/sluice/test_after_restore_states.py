"""sluice.after_restore: logs in every state, restored at lower, higher and overlapping xids."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.log import wait_until_due
from support.restore import GROUPS, Logs, burn_ids, dump_and_restore, next_id
from support.servers import TEMPLATE, new_database

MANY = 30_000  # more transaction ids than a restore assigns


def require_refusals(connection: psycopg.Connection, log: str, logs: Logs) -> None:
    """Check that each call on a log is refused before the repair, with its name and the way out."""
    refusals = []
    for call in (
        "select pgq.ticker(%s)",
        "select sluice.log_tick(%s)",
        "select pgq.force_tick(%s)",
        "select pgq.next_batch(%s, 'behind')",
        "select pgq_coop.next_batch(%s, 'coop', 'one')",
        "select sluice.create_group(%s, 'late')",
        "select sluice.log_incarnation(%s)",
    ):
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(call, (log,))
        refusals.append(caught.value)
    for group in GROUPS:
        with pytest.raises(psycopg.Error) as caught:
            logs.claim(connection, log, group, 100)
        refusals.append(caught.value)
    for error in refusals:
        assert error.sqlstate == "PQ004"
        assert f"event log '{log}'" in f"{error.diag.message_primary} {error.diag.message_detail}"
        assert "sluice.after_restore()" in error.diag.message_hint


def warnings_of(connection: psycopg.Connection, call: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    handler = lambda diag: found.append((diag.message_primary, diag.message_hint))  # noqa: E731
    connection.add_notice_handler(handler)
    connection.execute("set client_min_messages = warning")
    connection.execute(call)
    connection.remove_notice_handler(handler)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ids", "options"),
    [
        ("lower", ()),
        ("higher", ()),
        ("in between", ()),
        ("in between", ("--single-transaction",)),
        ("same server", ()),
    ],
)
def test_each_consumer_gets_what_it_had_not_finished_once(servers, ids, options):
    source = servers.get("18")
    target = source if ids == "same server" else servers.get("18", "other")
    logs = Logs()
    with new_database(source, TEMPLATE) as old, new_database(target, "template0") as new:
        with old.connect() as connection, new.connect() as there:
            if ids in ("lower", "in between"):
                burn_ids(connection, next_id(there) + MANY * (ids == "lower"))
            burn_ids(there, next_id(connection) * (ids == "in between"))
            first = next_id(connection)
            logs.create(connection)
            with old.connect(autocommit=False) as late:
                logs.go_on(connection, late)
            if ids == "in between":
                burn_ids(connection, next_id(connection) + MANY)
            with old.connect(autocommit=False) as late:
                logs.go_on(connection, late)
            last = next_id(connection)
            if ids == "higher":
                burn_ids(there, last + 1)
            with old.connect(autocommit=False) as running:
                running.execute("select pgq.insert_event('first', 'key', 'never committed')")
                dump_and_restore(old, new, *options)
                running.rollback()
        with new.connect() as connection:
            assert (next_id(connection) > first, next_id(connection) > last) == {
                "lower": (False, False),
                "in between": (True, False),
            }.get(ids, (True, True))
            # Producers may start again before the repair.
            for log in logs.names:
                logs.insert(connection, log, 3)
                with connection.transaction(), connection.transaction():
                    logs.insert(connection, log, 1)
                logs.insert(connection, log, 1, "0 s")
            connection.execute("select pgq.create_queue('new')")
            for log in logs.names:
                require_refusals(connection, log, logs)
            for call in ("select * from sluice.tick()", "select pgq.ticker()"):
                found = warnings_of(connection, call)
                assert [message.split()[2] for message, _ in found] == list(logs.names)
                assert all("sluice.after_restore()" in hint for _, hint in found)
            kept = rows(
                connection, "select log_name, reason from sluice.rotate() where action = 'kept'"
            )
            assert {name for name, reason in kept if "after_restore" in reason} == set(logs.names)
            # Other logs continue.
            connection.execute("select pgq.insert_event('new', 't', 'd')")
            assert value(connection, "select sluice.log_tick('new')") == 2

            repaired = rows(connection, "select log_name from sluice.after_restore()")
            assert repaired == [(name,) for name in logs.names]
            assert rows(connection, "select * from sluice.after_restore()") == []
            for log in logs.names:
                logs.insert(connection, log, 2)
            wait_until_due(connection)
            logs.consume_all(connection)
            assert logs.missing_and_repeated() == {}
            connection.execute("update pgq.queue set queue_rotation_period = '0'")
            for _ in range(4):
                for log in logs.names:
                    logs.insert(connection, log, 1)
                logs.consume_all(connection)
                actions = rows(connection, "select log_name, action from sluice.rotate()")
            assert {(log, "reclaimed") for log in logs.names} <= set(actions)
            assert logs.missing_and_repeated() == {}
