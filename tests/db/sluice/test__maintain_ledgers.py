"""sluice._maintain_ledgers; concurrency/test_group_ledgers.py covers concurrent sessions."""

import psycopg
import pytest

from support import rows


@pytest.fixture
def group(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.create_group('changes', 'mail')")


def test_ledgers_that_are_small_are_left(connection, group):
    assert rows(connection, "select * from sluice._maintain_ledgers()") == [(None, None)]


def test_session_reading_the_ledgers_itself_is_named(connection, group):
    with connection.transaction(), connection.cursor("reader") as reader:
        reader.execute("select * from sluice.claim_0")

        assert rows(connection, "select * from sluice._maintain_ledgers(0)") == [
            ("kept", "this session reads it")
        ]


def test_an_old_snapshot_is_refused(connection, group):
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("select * from sluice._maintain_ledgers(0)")
    assert caught.value.sqlstate == "SG004"
