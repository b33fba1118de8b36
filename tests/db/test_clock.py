"""The clock of the tests: the server's wall clock steps in every session, and nothing else does."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from conftest import FAST, VERSIONS, Database
from support import value
from support_clock import DAY_S, Clock, shifted_server


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
            begun = time.monotonic()
            with pytest.raises(psycopg.errors.QueryCanceled):
                session.execute("select pg_sleep(60)")
            assert time.monotonic() - begun < 30
            session.execute("reset statement_timeout")


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
