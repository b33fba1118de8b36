"""`pgsluice pipeline status`."""

from __future__ import annotations

import json

from support import value


def test_status_lists_running_pipelines(command, database_18):
    assert command("pipeline", "status").stdout == "no pipelines\nno exports\nno streams\n"
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('orders')")
        connection.execute("select pgq.register_consumer('orders', 'lake')")
        connection.execute(
            "select sluice.hold_pipeline('orders', 'lake', 'events', '/lake', %s)",
            (connection.info.backend_pid,),
        )
        value(connection, "select sluice.report_pipeline('orders', 'lake', 3, now())")

        connection.execute("select pgmq.create('mail')")
        connection.execute("select sluice.create_export('mail', 'archive', '/mail', 'id')")
        connection.execute("select sluice.queue_stream_start('spark', 'mail')")

        shown = json.loads(command("pipeline", "status", "--json").stdout)
        printed = command("pipeline", "status").stdout

    (found,) = shown["pipelines"]
    assert (found["consumer_name"], found["lake"], found["is_running"]) == ("lake", "/lake", True)
    assert (found["row_count"], found["lag_events"], found["lag_s"]) == (3, 0, 0)
    assert [export["lake"] for export in shown["exports"]] == ["/mail"]
    assert [stream["stream_name"] for stream in shown["streams"]] == ["spark"]
    for word in ("/lake", "/mail", "spark"):
        assert word in printed
