from __future__ import annotations

import pytest

from support import rows

FACTS = "select section, fact, at, detail from sluice.explain_pipeline('events', 'lake') order by ordinal"


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('events')")
    connection.execute("select pgq.register_consumer('events', 'lake')")
    return connection


def causes(connection):
    return [d["cause"] for section, *_, d in rows(connection, FACTS) if section == "reason"]


def state(connection):
    return rows(connection, FACTS)[0][3]["state"]


def test_pipeline_is_named_while_a_session_holds_it_and_after(log, database):
    assert state(log) == "unknown"
    with database.connect() as holder:
        holder.execute(
            "select * from sluice.hold_pipeline('events', 'lake', 'events', '/lake', pg_backend_pid())"
        )
        holder.execute("select sluice.report_pipeline('events', 'lake', 7, now())")

        assert (state(log), causes(log)) == ("running", ["pipeline", "up to date"])
        shown = str(rows(log, FACTS))
        assert "It last committed to the lake" in shown
        assert "It last reported: 7 rows since its start" in shown

    log.execute("select pgq.insert_event('events', 't', 'd')")
    log.execute("select sluice.log_tick('events')")

    assert state(log) == "stopped"
    assert causes(log) == ["pipeline not running", "consumer lag"]
