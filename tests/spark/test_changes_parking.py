"""Tables that cannot be applied are parked, rebuilt, widened, and named while they are incomplete."""

from __future__ import annotations

import shutil
import threading
from datetime import date
from decimal import Decimal

import psycopg
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from pgsluice.cli.pipeline import pipeline
from pgsluice.lake.current_tables import TableState, read_states
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import Place as TablePlace
from pgsluice.pipelines.current_state import event_files, upkeep
from pgsluice.pipelines.current_state.snapshot import rebuild, snapshot
from pgsluice.pipelines.current_state.table import CurrentTable, live
from pgsluice.verify import verify_current
from spark.changing import NAME
from spark.conftest import LOG
from spark.lake_reading import lake_table
from spark.test_changes import Place, only_delta, place
from support import value

__all__ = ["place"]


def states_of(place: Place) -> dict[str, TableState]:
    return {str(name): state for name, state in read_states(place.current).items()}


def command(*arguments: object) -> Result:
    return CliRunner().invoke(pipeline, list(map(str, arguments)), catch_exceptions=False)


@pytest.mark.slow
def test_table_that_cannot_be_applied_is_parked_until_it_is_rebuilt(
    place: Place, log: psycopg.Connection
):
    for name in ("good", "late", "keyed"):
        log.execute(f"create table {name} (id int primary key, at date)")  # type: ignore[arg-type]
        log.execute("select sluice.capture(%s, %s)", (name, LOG))
        log.execute(f"insert into {name} values (1, '2026-01-01')")  # type: ignore[arg-type]
    assert place.run().progress().parked == ()
    log.execute("insert into late values (2, '0044-03-15 BC')")
    log.execute("alter table keyed drop constraint keyed_pkey, add primary key (id, at)")
    log.execute("insert into keyed values (2, '2026-01-01')")
    log.execute("insert into good values (2, '2026-01-01')")

    answer = command(
        "run", "changes", "--log", LOG, "--lake", place.lake, "--checkpoint", place.checkpoint, "--once",
        "--dsn", place.dsn,
    )  # fmt: skip

    assert answer.exit_code == 1
    assert answer.stdout.endswith(", parked public.keyed, public.late\n")
    assert place.equal("public.good")
    assert len(place.rows("public.late")) == len(place.rows("public.keyed")) == 1
    assert lake_table(place.events).num_rows == value(log, "select count(*) from pgq.event_1")
    states = states_of(place)
    assert "has a value that does not fit" in str(states["public.late"].parked)
    assert f"pgsluice lake rebuild public.late --lake {place.lake}" in str(
        states["public.late"].parked
    )
    report = verify_current("late", place.at("public.late"), dsn=place.dsn)
    assert report.counts["parked"] == 1
    assert not report.equal
    check = command("verify", "changes", "--log", LOG, "--lake", place.lake, "--dsn", place.dsn)
    assert check.exit_code == 1
    assert "public.late: parked since 20" in check.stdout

    # Parked tables stay so over restarts and later changes.
    log.execute("insert into late values (3, '2026-01-01')")
    assert place.run().progress().parked == ("public.keyed", "public.late")
    assert len(place.rows("public.late")) == 1

    log.execute("delete from keyed where id = 1")
    for name in ("late", "keyed"):
        rebuild(f"public.{name}", place.lake, dsn=place.dsn)
    assert place.run(column_types={"public.late.at": "string"}).progress().parked == ()

    assert place.equal("public.keyed")
    assert [row[0] for row in place.rows("public.late")] == [1, 2, 3]
    snapshot("good", LOG, dsn=place.dsn)
    place.run(column_types={"public.late.at": "string"})
    check = command("verify", "changes", "--log", LOG, "--lake", place.lake, "--dsn", place.dsn)
    assert (check.exit_code, check.stdout.count(": complete since 20")) == (0, 3)
    table = CurrentTable.open(place.current, TableName("public", "good"))
    assert table is not None
    assert "; complete since 20" in str(table.stored.description)
    assert table.stored.properties["pgsluice.log"] == LOG


@pytest.mark.slow
@only_delta
def test_table_with_unsupported_features_or_other_buckets_is_parked(
    place: Place, log: psycopg.Connection
):
    for name in ("good", "altered", "large"):
        log.execute(f"create table {name} (id int primary key)")  # type: ignore[arg-type]
        log.execute("select sluice.capture(%s, %s)", (name, LOG))
        log.execute(f"insert into {name} values (1), (2)")  # type: ignore[arg-type]
    place.run(buckets={"public.large": 2})
    folder = place.folder / "current/public.altered"
    DeltaTable(str(folder)).alter.add_constraint({"small": "id < 5"})
    for name in ("good", "altered", "large"):
        log.execute(f"delete from {name} where id = 1")  # type: ignore[arg-type]
    buckets = {"public.large": 4}

    assert place.run(buckets=buckets).progress().parked == ("public.altered", "public.large")

    assert place.rows("public.good") == [(2,)]
    states = states_of(place)
    reason = str(states["public.altered"].parked)
    assert "uses checkConstraints: pgsluice cannot" in reason
    assert (
        f"or remove {folder}, and rebuild the table: pgsluice lake rebuild public.altered" in reason
    )
    assert "has 2 buckets, but buckets is 4; set the required number, and rebuild the table" in str(
        states["public.large"].parked
    )
    for name in ("altered", "large"):
        rebuild(f"public.{name}", place.lake, dsn=place.dsn)
    assert place.run(buckets=buckets).progress().parked == ("public.altered",)
    shutil.rmtree(folder)
    rebuild("public.altered", place.lake, dsn=place.dsn)
    assert place.run(buckets=buckets).progress().parked == ()
    for name in ("good", "altered", "large"):
        assert place.equal(f"public.{name}")


@pytest.mark.slow
def test_values_that_do_not_fit_become_null_beside_their_rejects(
    place: Place, log: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_files, "_EVENTS_ON_DRIVER_MAX", 0)
    # Applied by the driver, by executors, and without a key.
    tables = {"account": "id int primary key,", "large": "id int primary key,", "note": "id int,"}
    for name, key in tables.items():
        log.execute(f"create table {name} ({key} at date, amount numeric(4, 1))")  # type: ignore[arg-type]
        log.execute("select sluice.capture(%s, %s)", (name, LOG))
        log.execute(f"insert into {name} values (1, '2026-01-01', 1), (2, '0044-03-15 BC', 2)")  # type: ignore[arg-type]
        log.execute(f"insert into {name} values (3, '0044-03-15 BC', 'NaN')")  # type: ignore[arg-type]
    # A key is not replaced by null.
    log.execute("create table dated (at date primary key)")
    log.execute("select sluice.capture('dated', %s)", (LOG,))
    log.execute("insert into dated values ('0044-03-15 BC')")
    options = {"on_bad_value": "null", "buckets": {"public.large": 2, "public.dated": 2}}

    assert place.run(**options).progress().parked == ("public.dated",)
    reason = str(states_of(place)["public.dated"].parked)
    assert reason.startswith("column public.dated.at is date32[day] in the lake, and has a value")
    assert reason.endswith(f": pgsluice lake rebuild public.dated --lake {place.lake}")

    expected = [(1, date(2026, 1, 1), Decimal(1)), (2, None, Decimal(2)), (3, None, None)]
    for name in tables:
        assert place.rows(f"public.{name}") == expected
    rejects = sorted(
        (row["table"], row["column"], row["key"], row["value"])
        for row in lake_table(str(place.current.rejects)).to_pylist()
    )
    assert rejects[:3] == [
        ("public.account", "amount", '{"id": 3}', "NaN"),
        ("public.account", "at", '{"id": 2}', "0044-03-15 BC"),
        ("public.account", "at", '{"id": 3}', "0044-03-15 BC"),
    ]
    assert len(rejects) == 9

    # A row without a key is found by its original values.
    log.execute("delete from note where id = 3")
    place.run(**options)

    assert place.rows("public.note") == expected[:2]
    assert lake_table(str(place.current.rejects)).num_rows == 9


@pytest.mark.slow
def test_wider_types_odd_names_and_infinite_times_are_stored(place: Place, log: psycopg.Connection):
    for name in ("account", "large"):
        log.execute(
            f'create table {name} (id int primary key, "unit price" numeric(6, 2), ratio real, "_seq" text,'  # type: ignore[arg-type]
            ' "a%20;b" varchar(2), at timestamptz, due date, n int, count int, price numeric(9, 8))'
        )
        log.execute("select sluice.capture(%s, %s)", (name, LOG))
        log.execute(
            f"insert into {name} values (1, 1.25, 0.1, 'a', 'b', 'infinity', '-infinity', 7, 8, 0.0000001)"  # type: ignore[arg-type]
        )
        log.execute(f"insert into {name} values (2, 2)")  # type: ignore[arg-type]
    options = {"buckets": {"public.large": 2}}
    assert place.run(**options).progress().parked == ()
    for name in ("account", "large"):
        assert place.equal(f"public.{name}")

    for name in ("account", "large"):
        log.execute(
            f'alter table {name} alter "unit price" type numeric(12, 3), alter ratio type float8,'  # type: ignore[arg-type]
            ' alter id type bigint, alter "a%20;b" type varchar(9), alter n type numeric(12, 2),'
            " alter count type numeric, alter price type numeric"
        )
        log.execute(
            f"insert into {name} values (1::bigint << 40, 123456789.125, 0.123456789012, 'c', 'bbbbb', null, null, 7.25, 1.5, 2)"  # type: ignore[arg-type]
        )
    assert place.run(**options).progress().parked == ()

    for name in ("account", "large"):
        assert place.equal(f"public.{name}")
    assert live(place.spark, place.lake, "public.account").columns == [
        "id", "unit price", "ratio", "_seq", "a%20;b", "at", "due", "n", "count", "price",
    ]  # fmt: skip
    # A type with other values of existing rows needs a rebuild.
    log.execute("alter table account alter ratio type int")
    log.execute("update account set ratio = 5 where id = 2")
    assert place.run(**options).progress().parked == ("public.account",)
    rebuild("public.account", place.lake, dsn=place.dsn)
    assert place.run(**options).progress().parked == ()
    assert place.equal("public.account")


@pytest.mark.slow
def test_table_is_rebuilt_while_writers_the_pipeline_and_its_maintenance_run(
    place: Place, log: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    maintained: set[TablePlace] = set()

    def exists(place: TablePlace) -> bool:
        maintained.add(place)
        return unpatched(place)

    unpatched = upkeep.exists
    monkeypatch.setattr(upkeep, "exists", exists)
    log.execute("create table account (id int primary key, at date)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account select n, '2026-01-01' from generate_series(1, 3000) as n")
    log.execute("insert into account values (0, '0044-03-15 BC')")
    with place.run(once=False, trigger_s=0.1, compact_every_s=0.5) as stream:
        stream.wait_until(lambda: stream.progress().parked, "was not parked", deadline_s=60)
        log.execute("delete from account where id = 0")
        done = threading.Event()

        def write() -> None:
            with psycopg.connect(place.dsn, autocommit=True) as connection:
                for n in range(1, 10_000):
                    connection.execute("delete from account where id = %s", (n % 3000,))
                    connection.execute("insert into account values (%s, now())", (10_000 + n,))
                    connection.execute("update account set id = -id where id = %s", (n % 2000,))
                    if done.is_set():
                        return

        writer = threading.Thread(target=write)
        writer.start()
        rebuild("public.account", place.lake, dsn=place.dsn)
        done.set()
        writer.join()
        stream.catch_up()

        assert stream.progress().parked == ()
    assert place.equal("public.account")
    assert {
        place.current.place_of(NAME),
        place.current.events,
    } <= maintained


@pytest.mark.slow
@only_delta
def test_rebuild_is_one_commit_for_readers(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key, at date)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account select n, '2026-01-01' from generate_series(1, 2500) as n")
    place.run()
    log.execute("insert into account values (0, '0044-03-15 BC')")
    assert place.run().progress().parked == ("public.account",)
    log.execute("delete from account where id < 10")
    folder = place.folder / "current" / "public.account"
    before = DeltaTable(str(folder)).version()

    rebuild("public.account", place.lake, dsn=place.dsn)
    log.execute("update account set at = '2026-01-02' where id = 1000")
    place.run(max_rows_per_trigger=1000)

    # Its versions: as parked, and rebuilt; then the description, and changes.
    versions = range(before, DeltaTable(str(folder)).version() + 1)
    row_counts = [
        open_dataset(folder, version=version).count_rows(filter=~pc.field("_deleted"))
        for version in versions
    ]
    assert row_counts[0] == 2500
    assert set(row_counts[1:]) == {2491}
    assert place.equal("public.account")
    assert not (place.folder / "current/_rebuilding/public.account").exists()
    log.execute("truncate account")
    rebuild("public.account", place.lake, dsn=place.dsn)
    assert place.run().progress().parked == ()
    assert place.rows("public.account") == []
