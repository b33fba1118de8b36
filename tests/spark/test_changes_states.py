"""States, column names, types and rejects of current-state tables, without Spark."""

from __future__ import annotations

import json
import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import (
    CaptureError,
    ChangeError,
    ConfigurationError,
    ConnectionFailedError,
    ServerError,
    SluiceError,
    StoreError,
)
from pgsluice.lake.completeness import problems
from pgsluice.lake.current_tables import (
    OWN_COLUMNS,
    Captured,
    Tables,
    TableState,
    captured_column,
    lake_column,
    read_states,
    rebuild_requests,
    request_rebuild,
    write_state,
)
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.jobs import compact
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import names_in, tables_in
from pgsluice.pipelines.current_state import evolution
from pgsluice.pipelines.current_state.columns import array_of, identity_of
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.evolution import wider_types
from pgsluice.pipelines.current_state.parking import Parking
from pgsluice.pipelines.current_state.reading import SNAPSHOT_EVENT, Event
from pgsluice.pipelines.current_state.snapshot import rebuild
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.spark.access import Access
from pgsluice.verify import verify_changes
from spark.changing import NAME, apply, stored, widened
from spark.conftest import LOG
from spark.lake_reading import lake_table
from support.servers import Database

T, NEW = TableName("s", "t"), TableName("s", "new")
KINDS = {"id": pa.int64(), "price": pa.decimal128(6, 2), "ratio": pa.float32(), "at": pa.date32()}


def change(op: str, seq: int, row: Row) -> Change:
    before, after = (row, None) if op == "d" else (None, row)
    return Change(NAME, ("id",), seq, seq, op, before, after)


@pytest.fixture
def table(current: Tables) -> CurrentTable:
    return CurrentTable.create(current, NAME, ("id",), KINDS, properties={"pgsluice.log": LOG})


@given(st.text(min_size=1) | st.sampled_from(OWN_COLUMNS))
def test_column_names_in_the_lake_are_reversible_and_not_refused(name: str):
    encoded = lake_column(name)

    assert captured_column(encoded) == name
    assert encoded not in OWN_COLUMNS
    assert not set(encoded) & set(" ,;{}()\n\t=")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (pa.decimal128(6, 2), pa.decimal128(8, 3), "wider"),
        (pa.decimal128(6, 2), pa.decimal128(6, 3), "refused"),  # three digits before the point
        (pa.decimal128(6, 2), pa.decimal128(6, 1), "refused"),
        (pa.float32(), pa.float64(), "wider"),
        (pa.float64(), pa.float32(), "refused"),
        (pa.int64(), pa.decimal128(12, 3), "wider"),
        (pa.int64(), pa.float64(), "wider"),
        (pa.float64(), pa.decimal128(12, 3), "refused"),
        (pa.int64(), pa.bool_(), "refused"),
        (pa.int64(), pa.string(), "refused"),
        (pa.string(), pa.int64(), "same"),  # text holds every value
        (pa.int64(), pa.int64(), "same"),
    ],
)
def test_only_types_that_hold_every_former_value_are_widened(
    current: Tables, before: pa.DataType, now: pa.DataType, expected: str
):
    table = CurrentTable.create(current, NAME, ("id",), {"id": pa.int64(), "c": before})

    if expected == "refused":
        with pytest.raises(ChangeError, match=r"column public.account.c is .* rebuild the table"):
            wider_types(table.name, table.kinds, table.key, {"id": pa.int64(), "c": now})
    else:
        assert wider_types(table.name, table.kinds, table.key, {"c": now}) == (
            {"c": now} if expected == "wider" else {}
        )


def test_rows_that_are_found_by_their_text_or_bucket_keep_both_when_widened(current: Tables):
    kinds = {"id": pa.int64(), "n": pa.int64(), "d": pa.decimal128(4, 2)}
    keyed = CurrentTable.create(current, TableName("s", "keyed"), ("id",), kinds)
    keyless = CurrentTable.create(current, TableName("s", "keyless"), (), kinds)
    wide, text = pa.decimal128(8, 3), pa.string()

    assert wider_types(
        keyed.name, keyed.kinds, keyed.key, {"n": text, "d": text}, numeric=["n", "d"]
    ) == {"n": text, "d": text}
    assert wider_types(
        keyless.name, keyless.kinds, keyless.key, {"n": text, "d": text}, numeric=["n", "d"]
    ).keys() == {"n", "d"}
    assert wider_types(
        keyless.name,
        keyless.kinds,
        keyless.key,
        {"n": pa.decimal128(8, 0), "d": pa.decimal128(6, 2)},
    )
    for table, changed in (
        (keyed, {"n": text}),
        (keyed, {"id": wide}),
        (keyless, {"n": wide}),
        (keyless, {"d": wide}),
    ):
        with pytest.raises(ChangeError, match="rebuild the table"):
            wider_types(table.name, table.kinds, table.key, changed)


def test_each_widened_value_is_the_one_that_postgresql_stores(current: Tables):
    kinds = {"id": pa.int64(), "n": pa.int64(), "d": pa.decimal128(12, 8)}
    table = CurrentTable.create(current, NAME, ("id",), kinds)
    rows: list[Row] = [{"id": 1, "n": -5, "d": "0.0000001"}, {"id": 2, "n": 2**40, "d": None}]
    apply(table, [change("c", n, row) for n, row in enumerate(rows)], version=0)

    wide = widened(table.again(), {"n": pa.decimal128(38, 19), "d": pa.string()})
    with pytest.raises(
        ChangeError, match=r"account.n has a value in the lake that is no decimal128"
    ):
        widened(wide, {"n": pa.decimal128(20, 19)})

    rows_now = stored(table).sort_by("id")
    assert rows_now["n"].to_pylist() == [Decimal(-5), Decimal(2**40)]
    assert rows_now["d"].to_pylist() == ["0.00000010", None]


@pytest.mark.parametrize("conflicts", [1, 2])
def test_widening_is_retried_after_a_concurrent_compaction(
    table: CurrentTable, monkeypatch: pytest.MonkeyPatch, conflicts: int
):
    def compact_first(*arguments: object) -> object:
        if len(reads) < conflicts:
            reads.append(compact(str(table.stored.place)).files_removed)
            n = 50 + len(reads)
            apply(newest(), [change("c", n, {"id": n})], version=n)
        return unpatched(*arguments)

    def newest() -> CurrentTable:
        return table.again()

    for n in range(4):
        apply(newest(), [change("c", n, {"id": n, "price": "1.25"})], version=n)
    reads: list[int] = []
    unpatched = evolution.rows_in
    monkeypatch.setattr(evolution, "rows_in", compact_first)

    wide = widened(newest(), {"price": pa.decimal128(12, 3)})

    assert reads[0] > 1
    assert wide.kinds["price"] == pa.decimal128(12, 3)
    rows = stored(table).sort_by("id")
    assert rows["id"].to_pylist() == [0, 1, 2, 3, *range(51, 51 + conflicts)]
    assert rows["price"].to_pylist()[:4] == [Decimal("1.250")] * 4


def test_widened_table_keeps_its_rows_name_properties_and_applied_versions(
    table: CurrentTable, current: Tables
):
    apply(table, [change("c", 1, {"id": 1, "price": "1.25", "ratio": "0.5"})], version=0)

    wide = widened(table.again(), {"price": pa.decimal128(12, 3), "ratio": pa.float64()})

    assert wide.kinds == KINDS | {"price": pa.decimal128(12, 3), "ratio": pa.float64()}
    assert not apply(wide, [change("c", 2, {"id": 9})], version=0)
    assert apply(wide, [change("c", 2, {"id": 2, "price": "123456789.125"})], version=1)
    rows = stored(table).sort_by("id")
    assert rows["price"].to_pylist() == [Decimal("1.250"), Decimal("123456789.125")]
    assert rows["ratio"].to_pylist() == [0.5, None]
    assert names_in(current) == [NAME]
    assert wide.stored.properties["pgsluice.log"] == LOG
    assert wide.key == ("id",)


def test_infinite_times_are_the_first_and_last_that_every_reader_knows():
    kinds = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))

    found = [
        [str(v)[:10] for v in array_of(["infinity", "-infinity"], k, "c").to_pylist()]
        for k in kinds
    ]

    assert found == [["9999-12-31", "0001-01-01"]] * 3
    assert identity_of("infinity", kinds[2]) != identity_of("9999-12-31T23:59:59.999999Z", kinds[2])
    assert identity_of("infinity", kinds[0]) != identity_of("9999-12-31", kinds[0])


@pytest.mark.parametrize("are_many", [False, True])
def test_rejects_are_stored_once_and_key_columns_are_no_rejects(
    table: CurrentTable, current: Tables, tmp_path: Path, are_many: bool
):
    changes = [
        change("c", 1, {"id": 1, "price": "NaN", "at": "2026-01-01"}),
        change("c", 2, {"id": 2, "price": "1", "at": "never"}),
        change("c", 3, {"id": 3, "price": "2", "at": "2026-01-01"}),
        change("d", 4, {"id": 4}),
    ]
    rejects = current.rejects

    assert apply(table, changes, version=0, rejects=rejects, are_many=are_many)
    # A crash after the commit of the rejects repeats them.
    other = CurrentTable.create(tables_in(tmp_path / "other"), NAME, ("id",), KINDS)
    apply(other, changes, version=0, rejects=rejects, are_many=are_many)

    rows = [tuple(row.values())[:4] for row in stored(table).to_pylist()]
    assert sorted(rows) == [
        (1, None, None, date(2026, 1, 1)),
        (2, Decimal(1), None, None),
        (3, Decimal(2), None, date(2026, 1, 1)),
        (4, None, None, None),
    ]
    found = lake_table(rejects).to_pylist()
    assert {(row["column"], row["key"], row["ev_id"], row["value"]) for row in found} == {
        ("price", '{"id": 1}', 1, "NaN"),
        ("at", '{"id": 2}', 2, "never"),
    }
    assert len(found) == 2
    bad_key = [change("c", 5, {"id": "x", "price": "1", "at": "never"})]
    with pytest.raises(ChangeError, match=r"public.account.id is int64"):
        apply(table.again(), bad_key, version=1, rejects=rejects, are_many=are_many)


@pytest.fixture
def parking(log: psycopg.Connection, database_18: Database, tmp_path: Path) -> Parking:
    log.execute("create table account (id int primary key)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    return Parking(tables_in(tmp_path), LOG, Access(database_18.url))


def again(parking: Parking) -> Parking:
    return Parking(parking.current, parking.log, parking.access)


def test_parked_table_is_known_after_a_restart(parking: Parking):
    with parking.guard(NAME):
        raise ChangeError("column c does not fit; rebuild the table")

    assert again(parking).parked() == parking.parked() == [NAME]
    assert parking.is_parked(NAME)
    assert not parking.is_parked(TableName("public", "other"))
    assert read_states(parking.current)[NAME].parked == (
        "column c does not fit; rebuild the table: pgsluice lake rebuild public.account --lake "
        f"{parking.current.lake}"
    )


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("gone"),
        ServerError("the disk is full", sqlstate="53100"),
        psycopg.OperationalError("gone"),
        StoreError("the lake table refused a commit"),
        ConfigurationError("the catalogue refuses the credentials"),
        OSError(28, "No space left on device"),
        OSError("When reading object: AWS Error NETWORK_CONNECTION"),
        FileNotFoundError(2, "No such file or directory", "/lake/current/_collapsed/1/a.arrow"),
        MemoryError(),
        CommitFailedError("a concurrent commit"),
        DeltaError("Generic DeltaTable error: Object Store error: Generic S3 error: HTTP error"),
    ],
    ids=repr,
)
def test_error_of_server_store_or_process_parks_nothing(parking: Parking, error: Exception):
    with pytest.raises(type(error)), parking.guard(NAME):
        raise error

    assert parking.parked() == []


@pytest.mark.parametrize(
    "error",
    [
        SluiceError("column 'at' cannot be read as timestamp"),
        UnusableTableError("the lake table has files outside its folder"),
        OSError("Couldn't deserialize thrift: don't know what type"),
        FileNotFoundError(2, "No such file or directory", "/lake/current/public.account/a.parquet"),
        DeltaError("Generic DeltaTable error: Schema error: Ambiguous reference"),
        DeltaError(
            "Generic DeltaTable error: Parquet error: Object Store error: Object at location a not found"
        ),
        pa.ArrowInvalid("Parquet magic bytes not found in footer"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        RecursionError("too deep"),
        KeyError("v"),
    ],
    ids=lambda error: repr(error).encode("ascii", "replace").decode(),
)
def test_any_other_error_parks_the_table(parking: Parking, error: Exception):
    with parking.guard(NAME):
        raise error

    assert parking.parked() == [NAME]


def test_error_of_a_change_is_raised_if_tables_are_not_parked(parking: Parking):
    parking.fails = True

    with pytest.raises(ChangeError), parking.guard(NAME):
        raise ChangeError("column c does not fit; rebuild the table")

    assert again(parking).parked() == []


def test_requested_rebuild_begins_once_even_if_the_process_dies(parking: Parking):
    emptied: list[TableName] = []
    with parking.guard(NAME):
        raise ChangeError("column c does not fit")
    request_rebuild(parking.current, NAME)

    with pytest.raises(OSError, match="died"):
        parking.begin_rebuilds(_die)
    assert again(parking).parked() == [NAME]
    restarted = again(parking)
    restarted.begin_rebuilds(emptied.append)
    restarted.begin_rebuilds(emptied.append)
    again(parking).begin_rebuilds(emptied.append)

    assert emptied == [NAME]
    assert again(parking).parked() == []
    request_rebuild(parking.current, NAME)
    again(parking).begin_rebuilds(emptied.append)
    assert emptied == [NAME, NAME]


def _die(_name: TableName) -> None:
    raise OSError("died")


def test_table_that_cannot_be_rebuilt_is_named_and_no_rebuild_begins(
    parking: Parking, log: psycopg.Connection, database_18: Database
):
    lake = parking.current.lake
    with pytest.raises(ConfigurationError, match=f"no current-state table {NAME}; it has none"):
        rebuild(str(NAME), lake, dsn=database_18.url)
    parking.record_created(NAME)
    log.execute("select sluice.drop_capture('account', %s)", (LOG,))

    with pytest.raises(CaptureError, match="is not captured into event log 'log'"):
        rebuild(str(NAME), lake, dsn=database_18.url)

    assert rebuild_requests(parking.current) == {}


def test_completeness_is_checked_for_the_tables_of_the_pipeline(
    parking: Parking, log: psycopg.Connection, database_18: Database
):
    log.execute("create table other (id int primary key)")
    log.execute("select sluice.capture('other', %s)", (LOG,))
    parking.record_snapshots([mark("began", "a"), mark("ended", "a")])

    every = verify_changes(LOG, parking.current.lake, dsn=database_18.url)
    mine = verify_changes(LOG, parking.current.lake, tables=[str(NAME)], dsn=database_18.url)

    assert list(every.complete) == list(mine.complete) == [str(NAME)]
    assert (list(every.problems), list(mine.problems)) == (["public.other"], [])


def mark(state: str, token: str) -> Event:
    text = json.dumps({"state": state, "token": token})
    return 1, 1_000_000, SNAPSHOT_EVENT, text, str(NAME), None


def test_snapshot_completes_a_table_only_if_its_begin_was_applied_too(parking: Parking):
    assert parking.record_snapshots([mark("ended", "a")]) == []
    assert parking.record_snapshots([mark("began", "b"), mark("ended", "a")]) == []
    assert again(parking).record_snapshots([mark("ended", "b")]) == [NAME]

    assert read_states(parking.current)[NAME].complete_since == "1970-01-01T00:00:01+00:00"
    assert again(parking).description(NAME).endswith("; complete since 1970-01-01T00:00:01+00:00")


def test_description_adds_no_feature_to_a_table_with_local_timestamps(tmp_path: Path):
    table = CurrentTable.create(tables_in(tmp_path), NAME, (), {"at": pa.timestamp("us")})
    before = table.stored.delta.protocol()

    table.describe("complete since today")

    assert table.again().stored.delta.protocol() == before
    assert table.again().stored.delta.metadata().description == "complete since today"


def test_table_whose_folder_is_gone_is_not_created_again(parking: Parking):
    CurrentTable.create(parking.current, NAME, ("id",), {"id": pa.int64()})
    parking.record_created(NAME)
    parking.require_table(NAME)
    shutil.rmtree(parking.current.place_of(NAME))

    with pytest.raises(ChangeError, match="does not exist; restore it, or rebuild the table"):
        again(parking).require_table(NAME)


def test_start_names_each_incomplete_table(
    parking: Parking, log: psycopg.Connection, caplog: pytest.LogCaptureFixture
):
    log.execute("create table other (id int primary key)")
    log.execute("select sluice.capture('other', %s)", (LOG,))
    parking.record_created(NAME)
    log.execute("alter table account rename to client")

    again(parking).warn(selects=lambda _name: True, snapshots=["other"])

    found = {record.table: record.message for record in caplog.records}  # type: ignore[attr-defined]
    assert set(found) == {str(NAME), "public.client"}
    assert f"folder {parking.current.place_of(NAME)} does not exist" in found[str(NAME)]
    assert "run: pgsluice log snapshot log public.client" in found["public.client"]


def state(name: TableName, **facts: object) -> TableState:
    facts = {"source": "s", "oid": 1, "complete_since": "now", **facts}
    return TableState(name=name, log=LOG, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "captured", "expected"),
    [
        ({}, Captured(T, 1, True), None),
        ({"complete_since": None}, Captured(T, 1, True), "no complete snapshot"),
        ({"complete_since": None}, Captured(T, 1, False), None),
        ({"parked": "a reason"}, Captured(T, 1, True), "a reason"),
        ({"is_created": True}, Captured(T, 1, True), "does not exist"),
        ({"source": "other"}, Captured(T, 1, True), "come from another event log"),
        ({}, Captured(T, 2, True), "dropped and created again"),
        ({}, Captured(NEW, 1, True), "renamed to s.new"),
        ({}, Captured(NEW, 2, True), "no longer captured"),
        ({}, Captured(T, 1, True, ["t_2027"]), "partitions without capture: t_2027; keep"),
    ],
)
def test_each_reason_for_missing_rows_is_named(
    tmp_path: Path, facts: dict[str, object], captured: Captured, expected: str | None
):
    lost = [T] if "is_created" in facts else []
    found = problems(tables_in(tmp_path), LOG, "s", [captured], {T: state(T, **facts)}, lost)

    if expected is None:
        assert found == {}
    else:
        assert expected in found[T]


def test_uncaptured_partitions_are_named_by_verify_until_they_are_captured(
    tmp_path: Path, log: psycopg.Connection, database_18: Database
):
    log.execute("create table account (id int primary key) partition by range (id)")
    log.execute("create table low partition of account for values from (0) to (100)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("create table top partition of account for values from (100) to (200)")
    log.execute("alter table account detach partition low")
    write_state(tables_in(tmp_path), state(NAME, oid=None, source=""))

    found = verify_changes(LOG, tmp_path, dsn=database_18.url).problems

    assert found["public.account"].startswith("partitions without capture: top; keep pgsluice")
    assert found["public.low"].startswith("detached from a captured table")
    log.execute("select * from sluice.maintain()")
    assert verify_changes(LOG, tmp_path, dsn=database_18.url).problems.keys() == {"public.low"}
    log.execute("select sluice.drop_capture('low', %s)", (LOG,))
    assert verify_changes(LOG, tmp_path, dsn=database_18.url).problems == {}


def test_rejects_are_a_plain_delta_table(table: CurrentTable, tmp_path: Path):
    rejects = tmp_path / "rejects"

    apply(table, [change("c", 1, {"id": 1, "at": "never"})], version=0, rejects=rejects)

    assert DeltaTable(str(rejects)).protocol().min_reader_version == 1
