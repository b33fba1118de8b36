import psycopg

from support import value
from support.servers import Database

HOLDER = "select sluice._pipeline_holder(%s)"


def test_session_that_holds_a_pipeline_is_its_holder(log: psycopg.Connection, database: Database):
    log.execute("select pgq.create_queue('another')")
    with database.connect() as other:
        pid = other.info.backend_pid
        for log_name, consumer in (("log", "c"), ("another", "d")):
            other.execute(
                "select sluice.hold_pipeline(%s, %s, 'events', '/a', %s)", (log_name, consumer, pid)
            )

        assert value(log, HOLDER, "log 1 consumer c") == pid
        assert value(log, HOLDER, "log 2 consumer d") == pid
        assert value(log, HOLDER, "log 2 consumer c") is None
        assert value(log, HOLDER, "log 1 consumer d") is None
