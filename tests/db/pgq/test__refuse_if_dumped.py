"""pgq._refuse_if_dumped: the constraint trigger that rolls back truncations. See concurrency/test_dumps.py for races."""

import psycopg
import pytest

from pgsluice import schema
from support import value


def test_the_error_names_the_dump_and_the_solution(database, connection):
    with (
        database.connect(autocommit=False) as session,
        database.connect(application_name="pg_dump") as dump,
    ):
        session.execute("select pgq._note_truncation()")
        pid = dump.info.backend_pid
        with pytest.raises(psycopg.errors.SerializationFailure) as raised:
            session.commit()

    assert raised.value.diag.message_primary == (
        f"could not truncate tables: pg_dump was started meanwhile (pid {pid})"
    )
    assert raised.value.diag.message_hint == (
        "retry the transaction; no table is truncated while pg_dump is connected"
    )
    assert value(connection, "select count(*) from pgq.truncation") == 0


def test_an_installation_replaces_it_without_waiting_for_a_dump(database, connection):
    with database.connect(autocommit=False) as dump:
        dump.execute("lock table pgq.truncation in access share mode")
        connection.execute("set lock_timeout = '1 s'")

        schema.install(connection)

        assert (
            value(
                connection,
                "select count(*) from pg_trigger where tgrelid = 'pgq.truncation'::regclass",
            )
            == 1
        )
