import psycopg
import pytest

from support import rows, value


def test_the_queue_goes_back_to_the_default(connection):
    connection.execute("select pgmq.create('Orders')")
    connection.execute("select sluice.set_retry_policy('orders', 3)")

    assert value(connection, "select sluice.drop_retry_policy('ORDERS')") is True
    assert value(connection, "select sluice.drop_retry_policy('orders')") is False

    listed = "select max_attempts, is_default from sluice.list_retry_policies()"
    assert rows(connection, listed) == [(5, True)]


def test_a_queue_that_does_not_exist_is_named(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.drop_retry_policy('nope')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "QU005",
        "queue 'nope' does not exist",
    )


def test_only_an_admin_drops_it_without_being_superuser(connection, as_member):
    connection.execute("select pgmq.create('mail')")
    query = "select sluice.drop_retry_policy('mail')"

    assert as_member("sluice_admin", query) == [(False,)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
