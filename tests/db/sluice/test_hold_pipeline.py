import psycopg
import pytest

from support import rows, value
from support.servers import Database

HOLD = "select is_held, holder from sluice.hold_pipeline('log', %s, 'events', %s, %s)"


def hold(
    connection: psycopg.Connection, consumer: str = "c", lake: str = "/a", pid: int | None = None
) -> tuple[bool | None, str]:
    backend_pid = connection.info.backend_pid if pid is None else pid
    return connection.execute(HOLD, (consumer, lake, backend_pid)).fetchone()


def test_second_session_is_refused_until_the_first_ends(
    log: psycopg.Connection, database: Database
):
    with database.connect(application_name="first") as first:
        assert hold(first)[0]
        assert hold(first)[0]  # once more
        is_held, holder = hold(log, lake="/b")
        pid = first.info.backend_pid

    assert not is_held
    assert holder.startswith(f"pid {pid}, role postgres, application 'first', address ")
    assert ", since 2" in holder
    assert holder.endswith(", for the lake /a")
    # The server ends a closed session by itself, but not at once.
    value(log, "select pg_terminate_backend(%s, 10000)", pid)
    assert hold(log, lake="/b")[0]
    assert rows(log, "select consumer_name, kind, lake from sluice.process") == [
        ("c", "events", "/b")
    ]


def test_other_consumers_and_logs_are_held_separately(log: psycopg.Connection, database: Database):
    log.execute("select pgq.create_queue('another')")
    with database.connect() as other:
        assert hold(log)[0]
        assert hold(other, "d")[0]
        found = other.execute(
            "select is_held from sluice.hold_pipeline('another', 'c', 'events', '/a', %s)",
            (other.info.backend_pid,),
        ).fetchone()

    assert found == (True,)


def test_session_that_reports_is_ended_when_it_is_silent(log: psycopg.Connection):
    hold(log)
    assert value(log, "show idle_session_timeout") == "0"

    log.execute("select sluice.report_pipeline('log', 'c', 0, null)")

    assert value(log, "show idle_session_timeout") == "30s"


def test_behind_a_pooler_none_can_hold(log: psycopg.Connection):
    assert hold(log, pid=1)[0] is None
    assert value(log, "select count(*) from pg_locks where locktype = 'advisory'") == 0


def test_pipelines_of_retired_consumers_are_forgotten(log: psycopg.Connection, database: Database):
    log.execute("select pgq.register_consumer('log', 'registered')")
    for consumer in ("registered", "retired"):
        with database.connect() as session:
            hold(session, consumer)
            pid = session.info.backend_pid
        value(log, "select pg_terminate_backend(%s, 10000)", pid)
    with database.connect() as running:
        hold(running, "running")
        hold(log, "new")

    assert rows(log, "select consumer_name from sluice.process order by 1") == [
        ("new",),
        ("registered",),
        ("running",),
    ]


def test_missing_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.Error, match="log"):
        hold(connection)
