"""sluice.enable_successors: the triggers of a queue whose messages others wait for.

Covers _has_successors.
"""

import psycopg
import pytest

from support import rows, value

TRIGGERS = (
    "select tgname::text from pg_trigger where tgrelid = 'pgmq.q_orders'::regclass order by 1"
)
AFTER = "select sluice.send_after('orders', '2', '{orders}', '{1}')"


def test_it_creates_the_triggers_once_and_locks_nothing_the_second_time(
    database, connection, claimed
):
    connection.execute("select sluice.enable_successors('Orders')")
    assert rows(connection, TRIGGERS) == [("finish_all_predecessors",), ("finish_predecessors",)]

    with database.connect(autocommit=False) as writer:
        writer.execute("select pgmq.send('orders', '1'::jsonb)")
        connection.execute("set lock_timeout = '1s'")
        connection.execute("select sluice.enable_successors('orders')")


def test_triggers_that_were_disabled_are_refused_and_repaired(connection, claimed):
    connection.execute("select sluice.enable_successors('orders')")
    connection.execute("alter table pgmq.q_orders disable trigger finish_predecessors")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        connection.execute(AFTER)

    connection.execute("select sluice.enable_successors('orders')")
    connection.execute(AFTER)


@pytest.mark.parametrize("kind", ["create_unlogged", "create_partitioned"])
def test_queues_of_all_kinds_release(connection, kind):
    more = ", '1000', '5000'" if kind == "create_partitioned" else ""
    connection.execute(f"select pgmq.{kind}('orders'{more})")
    connection.execute("select sluice.enable_successors('orders')")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    connection.execute(AFTER)

    connection.execute("select pgmq.archive('orders', 1)")

    assert value(connection, "select vt <= clock_timestamp() from pgmq.q_orders") is True


def test_a_queue_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.Error, match="nothing"):
        connection.execute("select sluice.enable_successors('nothing')")


def test_only_an_administrator_may(database, connection, claimed, role):
    connection.execute(f"grant sluice_writer, sluice_reader to {role}")
    with (
        database.connect(user=role) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        session.execute("select sluice.enable_successors('orders')")
