"""PgQ's own daemon, unmodified from Debian's package, maintains our schema."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from compat.pgq.installations import Installation
from support import rows, value, wait_until

PGQD = shutil.which("pgqd")
INI = """
[pgqd]
base_connstr = {base}
database_list = {database}
initial_database = {database}
logfile = {log}
syslog = 0
check_period = 1
retry_period = 1
maint_period = 1
ticker_period = 1
"""


@pytest.fixture
def queue(observer: psycopg.Connection) -> str:
    observer.execute("select pgq.create_queue('q')")
    observer.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '0')")
    observer.execute("select pgq.set_queue_config('q', 'ticker_idle_period', '1 hour')")
    observer.execute("select pgq.register_consumer('q', 'c')")
    return "q"


@pytest.fixture
def daemon_log(installation: Installation, queue: str, tmp_path: Path) -> Iterator[Path]:
    """The log of a daemon that runs as a member of pgq_admin."""
    if PGQD is None:
        pytest.skip("PgQ's daemon is not installed: apt-get install pgqd")
    words = psycopg.conninfo.conninfo_to_dict(installation.libpq)
    database = words.pop("dbname")
    log = tmp_path / "pgqd.log"
    ini = tmp_path / "pgqd.ini"
    ini.write_text(
        INI.format(base=psycopg.conninfo.make_conninfo(**words), database=database, log=log)
    )
    with subprocess.Popen([PGQD, "-q", "-v", ini]) as daemon:
        yield log
        daemon.terminate()
        daemon.wait(30)
    complaints = [
        line for line in log.read_text().splitlines() if " ERROR " in line or " WARNING " in line
    ]
    assert complaints == []


def read_batch(connection: psycopg.Connection) -> list[tuple]:
    """Consume the next batch that has events."""
    found: list[tuple] = []

    def has_events() -> bool:
        batch_id = value(connection, "select pgq.next_batch('q', 'c')")
        if batch_id is None:
            return False
        found.extend(
            rows(
                connection,
                "select ev_id, ev_data, ev_retry from pgq.get_batch_events(%s)",
                batch_id,
            )
        )
        connection.execute("select pgq.finish_batch(%s)", [batch_id])
        return bool(found)

    wait_until(has_events, "a tick of the daemon")
    return found


@pytest.mark.slow
def test_the_daemon_takes_our_version_for_one_of_pgq_3(daemon_log):
    wait_until(
        lambda: daemon_log.exists() and "version ok" in daemon_log.read_text(),
        "the version check of the daemon",
    )

    assert "pgq version ok: 3.5" in daemon_log.read_text()


def test_the_daemon_ticks_so_that_events_arrive(observer, daemon_log):
    for data in ("one", "two", "three"):
        observer.execute("select pgq.insert_event('q', 't', %s)", [data])

    seen: list[str] = []
    while len(seen) < 3:
        seen += [data for _, data, _ in read_batch(observer)]

    assert seen == ["one", "two", "three"]


@pytest.mark.slow
def test_the_daemon_puts_events_back_that_are_to_be_repeated(observer, daemon_log):
    observer.execute("select pgq.insert_event('q', 't', 'again')")
    wait_until(
        lambda: value(observer, "select pgq.next_batch('q', 'c')") is not None,
        "a tick of the daemon",
    )
    batch_id = value(observer, "select pgq.next_batch('q', 'c')")
    ((ev_id,),) = rows(observer, "select ev_id from pgq.get_batch_events(%s)", batch_id)
    assert value(observer, "select pgq.event_retry(%s, %s, 0)", batch_id, ev_id) == 1
    observer.execute("select pgq.finish_batch(%s)", [batch_id])

    assert read_batch(observer) == [(ev_id, "again", 1)]
    assert rows(observer, "select ev_id from pgq.retry_queue") == []


@pytest.mark.slow
def test_the_daemon_rotates_and_no_event_is_lost(observer, daemon_log):
    observer.execute("select pgq.set_queue_config('q', 'rotation_period', '0')")
    tables, sent, seen = set(), [], []
    for number in range(1000):
        sent.append(str(number))
        observer.execute("select pgq.insert_event('q', 't', %s)", [str(number)])
        tables.add(value(observer, "select pgq.current_event_table('q')"))
        seen += [data for _, data, _ in read_batch(observer)]
        if len(tables) == 3:
            break

    assert tables == {"pgq.event_1_0", "pgq.event_1_1", "pgq.event_1_2"}
    assert seen == sent


def test_the_daemon_runs_the_extra_maintenance_of_a_queue(installation, observer, daemon_log):
    observer.execute("create table public.ran (queue_name text)")
    observer.execute(
        "create function public.extra(text) returns integer language sql as "
        "$$ insert into public.ran values ($1); select 0 $$"
    )
    observer.execute(f"grant insert on public.ran to {installation.role}")
    observer.execute("update pgq.queue set queue_extra_maint = array['public.extra']")

    wait_until(
        lambda: ("q",) in rows(observer, "select queue_name from public.ran"), "the extra work"
    )
