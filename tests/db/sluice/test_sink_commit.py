import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock

COMMIT = "select sluice.sink_commit('copier', %s)"


def test_a_version_is_new_once_and_so_is_a_later_one(connection):
    # The first version is 0, like the first micro-batch of a stream.
    assert [value(connection, COMMIT, version) for version in (0, 0, 1, 3, 2, 3)] == [
        True, False, True, True, False, False,
    ]  # fmt: skip
    assert value(connection, "select sluice.sink_commit('another', 0)") is True


def test_rolled_back_version_is_not_committed(database, connection):
    with database.connect(autocommit=False) as writer:
        assert value(writer, COMMIT, 7) is True
        writer.rollback()

    assert value(connection, COMMIT, 7) is True


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_of_two_at_once_the_second_waits_for_the_end_of_the_first(database, connection, ending):
    results = []
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert value(first, COMMIT, 0) is True
        thread = threading.Thread(target=lambda: results.append(value(second, COMMIT, 0)))
        thread.start()
        wait_for_lock(connection, second)
        getattr(first, ending)()
        thread.join(10)

    assert results == [ending == "rollback"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("null, 1", "22004", "sink_id or version is null"),
        ("'s', null", "22004", "sink_id or version is null"),
        ("'', 1", "22023", "sink_id has 0 bytes"),
        ("repeat('ä', 513), 1", "22023", "sink_id has 1026 bytes"),
    ],
)
def test_invalid_version_is_refused(connection, arguments, code, message):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select sluice.sink_commit({arguments})")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (code, message)
    assert caught.value.diag.message_hint


def test_writers_may_commit_and_no_role_may_reset_the_ledger(as_member):
    for member_of in ("sluice_writer", "pgq_writer"):
        assert as_member(member_of, "select sluice.sink_commit('s', 1)") == [(True,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, "delete from sluice.sink_commit returning 1")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", "select sluice.sink_commit('s', 1)")


def test_a_commit_that_cannot_be_repeated_is_forgotten_by_maintenance(connection):
    connection.execute(
        "select sluice.sink_commit('once', 0, null, '1 hour'), sluice.sink_commit('for ever', 0)"
    )
    assert rows(connection, "select * from sluice._maintain_sinks()") == []

    connection.execute(
        "update sluice.sink_commit set expires_at = now() where expires_at is not null"
    )

    assert rows(connection, "select task, done, detail from sluice.maintain()") == [
        ("keys", True, "1 expired keys removed")
    ]
    assert rows(connection, "select key from sluice.sink_commit") == [("for ever",)]
