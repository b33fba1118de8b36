import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock

ONCE = "select sluice.once('mailer', 'order 1')"


def test_a_key_is_new_once_for_each_handler(connection):
    assert value(connection, ONCE) is True
    assert value(connection, ONCE) is False
    assert value(connection, "select sluice.once('mailer', 'order 2')") is True
    assert value(connection, "select sluice.once('ledger', 'order 1')") is True


def test_rolled_back_key_is_not_recorded(database, connection):
    with database.connect(autocommit=False) as handler:
        assert value(handler, ONCE) is True
        assert value(handler, ONCE) is False  # includes keys of this transaction
        handler.rollback()

    assert value(connection, ONCE) is True


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_of_two_at_once_the_second_waits_and_does_it_if_the_first_did_not(
    database, connection, ending
):
    results = []
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert value(first, ONCE) is True
        thread = threading.Thread(target=lambda: results.append(value(second, ONCE)))
        thread.start()
        wait_for_lock(connection, second)
        getattr(first, ending)()
        thread.join(10)

    assert results == [ending == "rollback"]


def test_late_caller_above_read_committed_gets_a_serialization_failure(database, connection):
    with database.connect(autocommit=False) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        late.execute("select 1")
        assert value(connection, ONCE) is True

        with pytest.raises(psycopg.errors.SerializationFailure):
            value(late, ONCE)
        late.rollback()

        assert value(late, ONCE) is False


def test_key_is_kept_for_the_given_time(connection):
    assert value(connection, "select sluice.once('mailer', 'short', '1 hour')") is True
    assert value(connection, ONCE) is True
    hours = "select key, round(extract(epoch from expires_at - now()) / 3600) from sluice.inbox order by 1"
    assert rows(connection, hours) == [("order 1", 7 * 24), ("short", 1)]

    connection.execute("update sluice.inbox set expires_at = now() where key = 'short'")

    assert value(connection, "select sluice.once('mailer', 'short', '1 hour')") is True
    assert value(connection, "select sluice.once('mailer', 'short', '1 hour')") is False


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("null, 'k'", "22004", "handler, key or keep is null"),
        ("'h', null", "22004", "handler, key or keep is null"),
        ("'h', 'k', null", "22004", "handler, key or keep is null"),
        ("'', 'k'", "22023", "handler has 0 bytes"),
        ("'h', ''", "22023", "key has 0 bytes"),
        ("'h', repeat('ä', 513)", "22023", "key has 1026 bytes"),
        ("'h', 'k', '0 seconds'", "22023", "keep is not positive: 00:00:00"),
    ],
)
def test_invalid_idempotency_key_is_refused(connection, arguments, code, message):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select sluice.once({arguments})")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (code, message)
    assert caught.value.diag.message_hint


def test_the_longest_names_can_be_known(connection):
    # Varied characters, which an index cannot compress.
    long = "select sluice.once(%s, %s)"
    texts = ["".join(chr(33 + (i * i * step) % 90) for i in range(1024)) for step in (7, 11)]

    assert value(connection, long, *texts) is True
    assert value(connection, long, *texts) is False


def test_reader_role_may_call_once(as_member):
    assert as_member("sluice_reader", ONCE) == [(True,)]
    for member_of in ("sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, ONCE)
