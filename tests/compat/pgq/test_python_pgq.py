"""PgQ's own Python package, unmodified from Debian, produces to our logs and consumes from them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from compat.pgq.installations import Installation
from support import rows, value

PYTHON = Path("/usr/bin/python3")
PROGRAM = Path(__file__).with_name("python_pgq_program.py")
# loop_delay 0: exit when no batch is left; below 0: exit after the first batch.
INI = """
[recorder]
job_name = {job}
source = {libpq}
queue_name = q
consumer_name = c
loop_delay = {loop_delay}
use_skylog = 0
{more}
"""
SEEN = "select ev_type, ev_data, ev_extra1, ev_retry from public.seen order by number"

Run = Callable[..., str]


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    found = PYTHON.exists() and subprocess.run(
        [PYTHON, "-c", "import pgq"], capture_output=True, check=False
    )
    if not found or found.returncode != 0:
        pytest.skip("PgQ's Python package is not installed: apt-get install python3-pgq")


@pytest.fixture(autouse=True)
def queue(installation: Installation, observer: psycopg.Connection) -> None:
    observer.execute("select pgq.create_queue('q')")
    observer.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    observer.execute(
        "create table public.seen (job text, ev_id bigint, ev_type text, ev_data text, ev_extra1 text, "
        "ev_retry integer, number serial)"
    )
    observer.execute(f"grant insert on public.seen to {installation.role}")
    observer.execute(f"grant usage on public.seen_number_seq to {installation.role}")


@pytest.fixture
def run(installation: Installation, tmp_path: Path) -> Run:
    """Return a function that runs a program of the package to its end and returns its output."""

    def run_to_the_end(
        kind: str,
        *arguments: str,
        job: str = "job",
        loop_delay: int = 0,
        **more: str,
    ) -> str:
        ini = tmp_path / f"{job}.ini"
        ini.write_text(
            INI.format(
                job=job,
                libpq=installation.libpq,
                loop_delay=loop_delay,
                more="\n".join(f"{key} = {setting}" for key, setting in more.items()),
            )
        )
        where = installation.libpq if kind == "produce" else str(ini)
        ended = subprocess.run(
            [PYTHON, PROGRAM, kind, where, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert "ERROR" not in ended.stderr, ended.stderr
        return ended.stdout

    return run_to_the_end


def insert(observer: psycopg.Connection, *events: tuple[str, str, str | None]) -> None:
    for event in events:
        observer.execute("select pgq.insert_event('q', %s, %s, %s, null, null, null)", event)
    observer.execute("select pgq.ticker('q')")


def test_a_consumer_registers_itself_consumes_and_takes_its_leave(run, observer):
    run("consume", "--register")
    assert rows(observer, "select queue_name, consumer_name from pgq.get_consumer_info()") == [
        ("q", "c")
    ]
    insert(observer, ("a", "1", "x"), ("b", "2", None))

    run("consume")

    assert rows(observer, SEEN) == [("a", "1", "x", None), ("b", "2", None, None)]
    run("consume", "--unregister")
    assert rows(observer, "select * from pgq.get_consumer_info()") == []


@pytest.mark.parametrize("lazy", ["0", "2", "300"])
def test_a_consumer_reads_a_batch_at_once_or_through_a_cursor(run, observer, lazy):
    run("consume", "--register")
    insert(observer, *[("t", str(number), None) for number in range(7)])

    run("consume", pgq_lazy_fetch=lazy)

    assert [data for _, data, _, _ in rows(observer, SEEN)] == [str(number) for number in range(7)]


@pytest.mark.parametrize("lazy", ["0", "2"])
def test_event_tagged_for_retry_is_redelivered(run, observer, lazy):
    run("consume", "--register")
    insert(observer, ("once", "1", None), ("again", "2", None), ("once", "3", None))

    run("consume", pgq_lazy_fetch=lazy)
    assert value(observer, "select pgq.maint_retry_events()") == 1
    observer.execute("select pgq.ticker('q')")
    run("consume", pgq_lazy_fetch=lazy)

    assert rows(observer, SEEN) == [
        ("once", "1", None, None),
        ("again", "2", None, None),
        ("once", "3", None, None),
        ("again", "2", None, 1),
    ]


@pytest.mark.parametrize("lazy", ["0", "300"])
def test_a_consumer_is_given_only_the_tables_that_it_asks_for(run, observer, lazy):
    run("consume", "--register")
    insert(observer, ("a", "1", "public.wanted"), ("b", "2", "public.other"), ("c", "3", "s.too"))

    run("consume", table_filter="wanted, s.too", pgq_lazy_fetch=lazy)

    assert [data for _, data, _, _ in rows(observer, SEEN)] == ["1", "3"]


@pytest.mark.slow
def test_a_consumer_collects_ticks_into_one_batch(run, observer):
    run("consume", "--register")
    for number in range(3):
        insert(observer, ("t", str(number), None))

    run("consume", pgq_batch_collect_events="100")
    assert rows(observer, SEEN) == []
    run("consume", pgq_batch_collect_events="2", pgq_batch_collect_interval="1 hour")

    assert [data for _, data, _, _ in rows(observer, SEEN)] == ["0", "1", "2"]
    run("consume", pgq_keep_lag="1 hour")


def test_a_consumer_in_autocommit_mode_consumes(run, observer):
    run("consume", "--register")
    insert(observer, ("t", "1", None))

    run("consume", pgq_autocommit="1", pgq_lazy_fetch="0")

    assert rows(observer, SEEN) == [("t", "1", None, None)]


@pytest.mark.slow
def test_a_local_consumer_starts_again_where_its_file_says(run, observer, tmp_path):
    tracked = {"local_tracking_file": str(tmp_path / "tick")}
    run("local", "--register", **tracked)
    insert(observer, ("t", "1", None))
    run("local", **tracked)
    after_the_first = (tmp_path / "tick").read_text()
    insert(observer, ("t", "2", None))
    run("local", **tracked)
    assert [data for _, data, _, _ in rows(observer, SEEN)] == ["1", "2"]

    (tmp_path / "tick").write_text(after_the_first)
    run("local", "--rewind", **tracked)
    run("local", **tracked)

    assert [data for _, data, _, _ in rows(observer, SEEN)] == ["1", "2", "2"]
    assert (tmp_path / "tick").read_text() == str(
        value(observer, "select last_tick from pgq.get_consumer_info()")
    )


@pytest.mark.slow
def test_the_producers_of_the_package_insert_single_events_and_in_bulk(run, observer):
    run("consume", "--register")

    assert int(run("produce")) == 1
    observer.execute("select pgq.ticker('q')")
    run("consume")

    assert rows(observer, SEEN) == [
        ("single", "data", "1", None),
        ("bulk", "one", None, None),
        ("bulk", "tab\tnew\nline\\", "x", None),
        (None, "three", None, None),
    ]


@pytest.fixture
def cooperative(installation: Installation, observer: psycopg.Connection) -> None:
    if not rows(observer, "select 1 from pg_namespace where nspname = 'pgq_coop'"):
        pytest.skip("Debian has no package of pgq-coop: only ours has the schema pgq_coop")


@pytest.mark.slow
def test_cooperative_consumers_share_the_batches_of_one_consumer(run, observer, cooperative):
    run("coop", "--register", job="one", subconsumer_name="one")
    run("coop", "--register", job="two", subconsumer_name="two")
    insert(observer, ("t", "1", None))
    insert(observer, ("t", "2", None))
    insert(observer, ("again", "3", None))

    run("coop", job="one", subconsumer_name="one", loop_delay=-1)
    run("coop", job="two", subconsumer_name="two", loop_delay=-1)
    run("coop", job="one", subconsumer_name="one")
    assert value(observer, "select pgq.maint_retry_events()") == 1
    observer.execute("select pgq.ticker('q')")
    run("coop", job="two", subconsumer_name="two")

    assert rows(observer, "select job, ev_data, ev_retry from public.seen order by number") == [
        ("one", "1", None),
        ("two", "2", None),
        ("one", "3", None),
        ("two", "3", 1),
    ]


def test_a_cooperative_consumer_takes_over_the_batch_of_one_that_died(run, observer, cooperative):
    run("coop", "--register", job="dead", subconsumer_name="dead")
    insert(observer, ("t", "1", None))
    observer.execute("select pgq_coop.next_batch('q', 'c', 'dead')")
    observer.execute("update pgq.subscription set sub_active = now() - interval '1 hour'")

    run("coop", job="alive", subconsumer_name="alive", subconsumer_timeout="1 minute")

    assert rows(observer, "select job, ev_data from public.seen") == [("alive", "1")]


def test_a_cooperative_consumer_takes_its_leave(run, observer, cooperative):
    run("coop", "--register", job="one", subconsumer_name="one")

    run("coop", "--unregister", job="one", subconsumer_name="one")

    assert [
        name for (name,) in rows(observer, "select consumer_name from pgq.get_consumer_info()")
    ] == ["c"]
