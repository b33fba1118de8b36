import tempfile
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value


@pytest.fixture
def crashing(server, servers_folder):
    """A server of this test's own, and a function that crashes and restarts it.

    A crash of the server alone, without the operating system, loses no written WAL.
    """
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    own = EmbeddedServer(folder / "crashing", bin_dir=server.bin_dir, options={"fsync": "off"})

    def crash():
        own.stop("immediate")
        own.start()
        return psycopg.connect(own.url(), autocommit=True)

    own.start()
    with psycopg.connect(own.url()) as connection:
        schema.install(connection)
    yield own, crash
    own.stop("immediate")


def test_an_unlogged_queue_works_as_any_other(connection):
    connection.execute("select pgmq.create_unlogged('fast')")
    connection.execute("select pgmq.send_batch('fast', array['1', '2', '3']::jsonb[])")

    assert rows(connection, "select msg_id from pgmq.read('fast', 30, 1)") == [(1,)]
    assert value(connection, "select pgmq.archive('fast', 1)") is True
    assert rows(connection, "select msg_id from pgmq.pop('fast')") == [(2,)]
    assert value(connection, "select queue_length from pgmq.metrics('fast')") == 1
    assert value(connection, "select pgmq.purge_queue('fast')") == 1
    assert value(connection, "select pgmq.drop_queue('fast')") is True
    assert rows(connection, "select relname from pg_class where relname ~ '[qa]_fast'") == []


@pytest.mark.parametrize(("first", "kind"), [("create", False), ("create_unlogged", True)])
@pytest.mark.parametrize("then", ["create", "create_unlogged"])
def test_the_kind_of_a_queue_that_exists_is_kept(connection, first, kind, then):
    connection.execute(f"select pgmq.{first}('orders')")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")

    connection.execute(f"select pgmq.{then}('orders')")

    assert rows(connection, "select queue_name, is_unlogged from pgmq.list_queues()") == [
        ("orders", kind)
    ]
    persistence = "select relpersistence = 'u' from pg_class where relname = 'q_orders'"
    assert value(connection, persistence) is kind
    assert value(connection, "select count(*) from pgmq.q_orders") == 1


def test_an_admin_makes_it_and_the_other_roles_use_it(connection):
    connection.execute("set role sluice_admin")
    connection.execute("select pgmq.create_unlogged('fast')")
    connection.execute("set role sluice_writer")
    connection.execute("select pgmq.send('fast', '1'::jsonb)")
    connection.execute("set role sluice_reader")
    assert rows(connection, "select msg_id from pgmq.read('fast', 30, 1)") == [(1,)]
    assert value(connection, "select pgmq.archive('fast', 1)") is True
    connection.execute("set role sluice_admin")
    assert value(connection, "select pgmq.drop_queue('fast')") is True


@pytest.mark.slow
def test_after_a_crash_the_queue_is_empty_its_archive_whole_and_its_ids_go_on(crashing):
    server, crash = crashing
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("select pgmq.create_unlogged('fast')")
        connection.execute("select pgmq.send_batch('fast', array['1', '2', '3']::jsonb[])")
        connection.execute("select pgmq.archive('fast', array[1, 3]::bigint[])")

    with crash() as connection:
        assert value(connection, "select count(*) from pgmq.q_fast") == 0
        assert rows(connection, "select msg_id from pgmq.a_fast order by 1") == [(1,), (3,)]
        msg_id = value(connection, "select pgmq.send('fast', '\"after\"'::jsonb)")
        assert msg_id > 3
        assert value(connection, "select pgmq.archive('fast', %s)", msg_id) is True

    with crash() as connection:
        again = value(connection, "select pgmq.send('fast', '\"again\"'::jsonb)")
        assert again > msg_id
        assert value(connection, "select pgmq.archive('fast', %s)", again) is True
        archived = rows(connection, "select msg_id, message from pgmq.a_fast order by 1")
        assert archived == [(1, 1), (3, 3), (msg_id, "after"), (again, "again")]


@pytest.mark.slow
def test_creating_again_repairs_an_unlogged_queue_of_pgmq_after_a_crash(crashing):
    server, crash = crashing
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("select pgmq.create_unlogged('fast')")
        connection.execute("alter sequence pgmq.q_fast_msg_id_seq set unlogged")
        connection.execute("select pgmq.send('fast', '\"before\"'::jsonb)")
        connection.execute("select pgmq.archive('fast', 1)")

    with crash() as connection:
        assert value(connection, "select pgmq.send('fast', '\"after\"'::jsonb)") == 1
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("select pgmq.archive('fast', 1)")

        connection.execute("select pgmq.create_unlogged('fast')")

        assert rows(connection, "select msg_id, message from pgmq.read('fast', 0, 9)") == [
            (2, "after")
        ]
        assert value(connection, "select pgmq.archive('fast', 2)") is True


def test_an_unlogged_queue_on_a_server_that_suspends_gets_a_warning(connection):
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append((d.severity, d.message_primary)))
    connection.execute("select pgmq.create_unlogged('quiet')")
    connection.execute("set neon.timeline_id = '9b8c'")

    connection.execute("select pgmq.create_unlogged('fast')")
    connection.execute("select pgmq.create('kept')")

    assert warnings == [
        (
            "WARNING",
            'queue "fast" is unlogged: this server loses its messages whenever it is suspended',
        )
    ]
