"""pgmq.purge_queue and drop_queue, called by a role with privileges on PGMQ's objects only."""

from support import rows, value


def test_a_role_that_has_rights_in_schema_pgmq_alone_can_purge_and_drop(connection, queue, role):
    connection.execute("select pgmq.send('orders', '1'); select pgmq.read('orders', 30, 1)")
    connection.execute("select sluice.fail('orders', '[{\"msg_id\": 1, \"read_ct\": 1}]')")
    connection.execute(f"grant usage on schema pgmq to {role}")
    connection.execute(f"grant execute on all functions in schema pgmq to {role}")
    connection.execute(f"grant all on all tables in schema pgmq to {role}")
    connection.execute(f"alter table pgmq.q_orders owner to {role}")
    connection.execute(f"alter table pgmq.a_orders owner to {role}")

    connection.execute(f"set role {role}")
    assert value(connection, "select pgmq.purge_queue('orders')") == 1

    # The role may not delete from sluice.attempt; maintenance does.
    connection.execute("reset role")
    assert value(connection, "select count(*) from sluice.attempt") == 1
    connection.execute("update sluice.attempt set check_at = now()")
    assert len(rows(connection, "select * from sluice._maintain_attempts()")) == 1
    connection.execute(f"set role {role}")
    assert value(connection, "select pgmq.drop_queue('orders')") is True
    connection.execute("reset role")
    connection.execute(f"drop owned by {role}")
