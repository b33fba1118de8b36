import psycopg
import pytest

LIST = "select queue_name, max_attempts, is_default from sluice.list_retry_policies()"


def test_every_queue_is_listed_by_name_to_who_reads_or_watches(connection, as_member):
    connection.execute("select pgmq.create('mail'), pgmq.create('Orders')")
    connection.execute("select sluice.set_retry_policy('mail', 3)")

    for member_of in ("sluice_admin", "sluice_reader", "sluice_monitor"):
        assert sorted(as_member(member_of, LIST)) == [("Orders", 5, True), ("mail", 3, False)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", LIST)
