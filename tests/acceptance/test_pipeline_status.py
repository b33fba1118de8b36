"""`pgsluice pipeline status`."""

from __future__ import annotations

import json

from support import value


def test_status_lists_running_pipelines(command, database_18):
    assert command("pipeline", "status").stdout == "no pipelines\n"
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('orders')")
        connection.execute("select pgq.register_consumer('orders', 'lake')")
        connection.execute(
            "select sluice.hold_pipeline('orders', 'lake', 'events', '/lake', %s)",
            (connection.info.backend_pid,),
        )
        value(connection, "select sluice.report_pipeline('orders', 'lake', 3, now())")

        (found,) = json.loads(command("pipeline", "status", "--json").stdout)

    assert (found["consumer_name"], found["lake"], found["is_running"]) == ("lake", "/lake", True)
    assert (found["row_count"], found["lag_events"], found["lag_s"]) == (3, 0, 0)
