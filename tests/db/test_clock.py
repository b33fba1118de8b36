"""The test clock: it steps the server's wall clock in every session, and no other clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from support import value, wait_until
from support.clock import DAY_S, Clock, shifted_server
from support.servers import FAST, VERSIONS, Database


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_clock_steps_in_running_sessions_and_after_a_restart(
    servers_folder: Path, version: str
) -> None:
    with shifted_server(servers_folder / f"clock-{version}", version, FAST) as shifted:
        server, clock = shifted.server, shifted.clock
        with psycopg.connect(server.url(), autocommit=True) as session:
            assert _ahead_s(session) == pytest.approx(0, abs=60)
            clock.shift(DAY_S)
            assert _ahead_s(session) == pytest.approx(DAY_S, abs=60)
            clock.shift(-2 * DAY_S)
            assert _ahead_s(session) == pytest.approx(-DAY_S, abs=60)
        assert clock.offset_s == -DAY_S
        server.stop()
        server.start()
        with psycopg.connect(server.url(), autocommit=True) as session:
            assert _ahead_s(session) == pytest.approx(-DAY_S, abs=60)


def test_timeouts_that_start_after_a_step_are_on_time(
    clock_database: Database, clock: Clock
) -> None:
    with clock_database.connect() as session:
        for step in (-DAY_S, 2 * DAY_S):
            clock.shift(step)
            session.execute("set statement_timeout = '50 ms'")
            started_s = time.monotonic()
            with pytest.raises(psycopg.errors.QueryCanceled):
                session.execute("select pg_sleep(60)")
            assert time.monotonic() - started_s < 30
            session.execute("reset statement_timeout")


@pytest.mark.slow
def test_a_step_forward_ends_a_transaction_that_is_idle_before_its_limit(
    clock_database: Database, clock: Clock
) -> None:
    """PostgreSQL's timeout alarm compares every pending timeout with the wall clock."""
    with clock_database.connect() as observer, clock_database.connect() as session:
        session.execute("set idle_in_transaction_session_timeout = '60 s'")
        session.execute("set statement_timeout = '1 s'")
        session.execute("begin")
        pid = session.info.backend_pid
        started_s = time.monotonic()

        clock.shift(3600)

        query = "select count(*) from pg_stat_activity where pid = %s"
        wait_until(lambda: value(observer, query, pid) == 0, "the server to end the session")
        assert time.monotonic() - started_s < 30
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            session.execute("select 1")


def test_each_test_starts_with_a_right_clock(clock_database: Database, clock: Clock) -> None:
    with clock_database.connect() as session:
        assert clock.offset_s == 0
        assert _ahead_s(session) == pytest.approx(0, abs=60)


def _ahead_s(session: psycopg.Connection) -> float:
    now = value(session, "select clock_timestamp()")
    transaction = value(session, "select now()")
    assert isinstance(now, datetime)
    assert isinstance(transaction, datetime)
    assert abs(transaction - now) < timedelta(minutes=1)
    return (now - datetime.now(UTC)).total_seconds()
