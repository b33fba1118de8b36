"""pgmq.purge_queue: the record of a purge, if the caller may write it."""

from __future__ import annotations

import pytest

from support import rows, value

LISTED = "select actor, action, queue_name, message_count from sluice.list_actions()"


@pytest.mark.parametrize("may_record", [True, False])
def test_purge_is_recorded_if_the_role_may_record_it(connection, queue, role, may_record):
    connection.execute("select pgmq.send('orders', '1')")
    if may_record:
        connection.execute(f"grant sluice_admin to {role}")
    else:
        connection.execute(f"grant usage on schema pgmq to {role}")
        connection.execute(f"grant execute on all functions in schema pgmq to {role}")
        connection.execute(f"grant all on all tables in schema pgmq to {role}")

    connection.execute(f"set role {role}")
    assert value(connection, "select pgmq.purge_queue('orders')") == 1
    connection.execute("reset role")

    assert rows(connection, LISTED) == ([(role, "purge_queue", "orders", 1)] if may_record else [])
    connection.execute(f"drop owned by {role}")
