"""Ingestion of files into queues and logs: every row once, in order, invalid lines rejected."""

from __future__ import annotations

import gzip
import json
import threading
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg.conninfo import make_conninfo

from pgsluice.client import WorkQueue
from pgsluice.errors import (
    ConfigurationError,
    LogNotFoundError,
    QueueNotFoundError,
    SluiceError,
)
from pgsluice.pipelines import delivery
from pgsluice.pipelines import ingest as ingesting
from pgsluice.pipelines.ingest import IngestProgress, ingest
from pgsluice.spark.running import Progress
from support import wait_until
from support.servers import Database


@pytest.fixture
def add(db: psycopg.Connection, database_18: Database, tmp_path: Path):
    """Ingest into queue q, once, in parts of three rows."""
    WorkQueue(db).create("q")

    def add(*files: Path, **how: object) -> IngestProgress:
        given = {"queue": "q", "once": True, "batch_rows": 3, "dsn": database_18.url, **how}
        return ingest(files or [tmp_path], **given)  # type: ignore[arg-type]

    return add


def messages(db: psycopg.Connection, queue: str = "q") -> list[str]:
    return [
        text for (text,) in db.execute(f"select message::text from pgmq.q_{queue} order by msg_id")
    ]


def lines(path: Path, *texts: str | bytes) -> Path:
    data = b"".join((t if isinstance(t, bytes) else t.encode()) + b"\n" for t in texts)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rejected(path: Path) -> list[tuple[str, int, str, str]]:
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [tuple(entry.values()) for entry in entries]


def test_lines_are_stored_as_they_stand_in_their_order_and_once(add, db, tmp_path: Path):
    texts = [f'{{"n": {n}}}' for n in range(7)]
    lines(tmp_path / "b.jsonl", *texts)
    lines(
        tmp_path / "a.ndjson.gz",
        '"żółć 🦆"',
        "",
        '{"n": 1.10, "big": 12345678901234567890.123456789}',
    )

    first, second = add(), add()

    assert messages(db) == [
        '"żółć 🦆"',
        '{"n": 1.10, "big": 12345678901234567890.123456789}',
        *texts,
    ]
    assert (first.rows, first.micro_batches, first.files, first.rejected) == (9, 4, 2, 0)
    assert first.offset == {"file": str(tmp_path / "b.jsonl"), "line": 7}
    assert (second.rows, second.files) == (0, 2)


def test_rows_of_csv_and_parquet_are_objects(add, db, tmp_path: Path):
    (tmp_path / "a.csv").write_bytes('﻿id,note\r\n1,"two\nlines, ""quoted"""\r\n\r\n2,\r\n'.encode())
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    row = {"t": moment, "d": Decimal("1.10"), "b": b"\x00\xff", "l": [1, None], "s": {"x": "ż"}}
    pq.write_table(pa.Table.from_pylist([row, dict.fromkeys(row)]), tmp_path / "b.parquet")

    add()

    assert [json.loads(text) for text in messages(db)] == [
        {"id": "1", "note": 'two\nlines, "quoted"'},
        {"id": "2", "note": ""},
        {"t": "2026-01-02T03:04:05.678901+00:00", "d": "1.10", "b": "AP8=", "l": [1, None], "s": {"x": "ż"}},
        dict.fromkeys(row),
    ]  # fmt: skip


BAD_VALUES = {
    "timestamp with nanoseconds": pa.array([1_000, 1_001], pa.timestamp("ns")),
    "timestamp after 9999": pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", "UTC")),
    "timestamp of no year": pa.array([0, 2**62], pa.timestamp("ms")),
    "date after 9999": pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()),
    "time with nanoseconds": pa.array([1_000, 1], pa.time64("ns")),
    "duration": pa.array([1, 2**60], pa.duration("ms")),
    "text": pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    ),
    "list": pa.array([[1_000], [1]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ns"))),
    "struct": pa.array([{"d": 0}, {"d": 2_932_897}]).cast(pa.struct([("d", pa.int32())])).cast(pa.struct([("d", pa.date32())])),
    "not a number": pa.array([1.0, float("nan")]),
    "infinity in a list": pa.array([[1.0], [float("inf")]]),
    "character": pa.array(["a", "\0"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_row_of_parquet_with_a_value_that_json_lacks_is_rejected_alone(
    add, db, tmp_path: Path, kind: str
):
    values = pa.concat_arrays([BAD_VALUES[kind].slice(0, 1), *[BAD_VALUES[kind]] * 2])
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(5), "bad value": values}), file)

    first, again = add(), add()

    assert [json.loads(text)["n"] for text in messages(db)] == [0, 1, 3]
    found = rejected(tmp_path / "a.parquet.rejects")
    assert [(entry[0], entry[1]) for entry in found] == [(str(file), 3), (str(file), 5)]
    assert all(json.loads(entry[3].replace("NaN", "0"))["n"] in (2, 4) for entry in found)
    assert (first.rejected, again.rejected) == (2, 0)


def test_oldest_timestamps_of_parquet_do_not_overflow(add, db, tmp_path: Path):
    moments = pa.array([datetime(9999, 12, 31), datetime(1, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001
    pq.write_table(
        pa.table({"t": moments}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True
    )

    add()

    assert [json.loads(text)["t"][:10] for text in messages(db)] == ["9999-12-31", "0001-01-01"]


def test_invalid_row_is_kept_with_its_line_and_other_rows_are_loaded(add, db, tmp_path: Path):
    nul, lone = '"\\u0000"', '{"a": ["\\ud800"]}'
    file = lines(
        tmp_path / "a.jsonl",
        "1", "{", "2", nul, "3", b"\xff4", "NaN", "[" * 100_000, "4", lone, nul, nul, "5",
    )  # fmt: skip
    csv = lines(tmp_path / "b.csv", "a,b", "1,2", "3", "4,5,6", 'x"y,"z"z', "7,8")

    first, second = add(), add()

    assert messages(db) == ["1", "2", "3", "4", "5", '{"a": "1", "b": "2"}', '{"a": "7", "b": "8"}']
    found = rejected(tmp_path / "a.jsonl.rejects")
    assert [entry[1] for entry in found] == [2, 4, 6, 7, 8, 10, 11, 12]
    assert {entry[0] for entry in found} == {str(file)}
    assert [entry[3] for entry in found if entry[1] in (2, 4, 6, 10)] == ["{", nul, "\\xff4", lone]
    assert "invalid UTF-8: byte 1 is 0xff" in found[2][2]
    assert [entry[:2] + entry[3:] for entry in rejected(tmp_path / "b.csv.rejects")] == [
        (str(csv), 3, "3"), (str(csv), 4, "4,5,6"), (str(csv), 5, 'x"y,"z"z'),
    ]  # fmt: skip
    assert (first.rows, first.rejected) == (7, 11)
    assert (second.rows, second.rejected) == (0, 0)


def test_appended_rows_of_a_file_are_ingested(add, db, tmp_path: Path):
    file = lines(tmp_path / "a.jsonl", "1", "2", "3", "4")
    add()

    lines(file, "1", "2", "3", "4", "5")
    grown = add()

    assert messages(db) == ["1", "2", "3", "4", "5"]
    assert grown.rows == 1


def test_a_file_that_has_changed_is_named_and_the_others_are_added(add, db, tmp_path: Path):
    file = lines(tmp_path / "a.jsonl", "1", "2")
    add()

    for changed in (["1", "9", "3"], ["1"]):
        lines(file, *changed)
        lines(tmp_path / f"b{len(changed)}.jsonl", "7")
        with pytest.raises(
            ConfigurationError, match=r"a\.jsonl has changed since its first 2 lines"
        ):
            add()

    assert messages(db) == ["1", "2", "7", "7"]


def test_a_file_that_breaks_off_goes_on_when_it_is_whole(add, db, tmp_path: Path):
    file = lines(tmp_path / "a.jsonl.gz", *(f'"{n:064x}"' for n in range(5000)))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigurationError, match=r"a\.jsonl\.gz cannot be read to its end"):
        add(batch_rows=100)
    assert 0 < len(messages(db)) < 5000

    file.write_bytes(whole)
    add(batch_rows=1000)

    assert messages(db) == [f'"{n:064x}"' for n in range(5000)]


def test_killed_before_its_commit_it_neither_loses_nor_doubles_a_row_or_a_reject(
    add, db, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines(tmp_path / "a.jsonl", "1", "{", "2", "3", "[", "4", "5")

    class KilledError(BaseException):
        pass

    commit, calls = delivery.sinks.sink_commit, []

    def crash_at_the_second(*arguments: object, **named: object):
        calls.append(1)
        if len(calls) == 3:  # the first write records the start of the file
            raise KilledError
        return commit(*arguments, **named)

    monkeypatch.setattr(delivery.sinks, "sink_commit", crash_at_the_second)
    with pytest.raises(KilledError):
        add()
    assert messages(db) == ["1", "2"]
    assert [entry[1] for entry in rejected(tmp_path / "a.jsonl.rejects")] == [2, 5]

    add(batch_rows=5)

    assert messages(db) == ["1", "2", "3", "4", "5"]
    assert [entry[1] for entry in rejected(tmp_path / "a.jsonl.rejects")] == [2, 5]


def test_two_at_once_add_each_row_once(add, db, tmp_path: Path):
    texts = [str(n) if n % 10 else "{" for n in range(1, 601)]
    lines(tmp_path / "a.jsonl", *texts)
    errors: list[BaseException] = []

    def run(batch_rows: int) -> None:
        try:
            add(batch_rows=batch_rows)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rows,)) for rows in (7, 11, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert messages(db) == [text for text in texts if text != "{"]
    found = [entry[1] for entry in rejected(tmp_path / "a.jsonl.rejects")]
    assert found == list(range(10, 601, 10))


def test_a_log_gets_events(add, db, tmp_path: Path):
    db.execute("select pgq.create_queue('events')")
    lines(tmp_path / "a.jsonl", '{"n": 1}', "{", '{"n": 2}')

    add(queue=None, log="events", ev_type="order")
    add(queue=None, log="events", ev_type="order")

    (table,) = db.execute("select pgq.current_event_table('events')").fetchone() or ("",)
    events = db.execute(f"select ev_type, ev_data from {table} order by ev_id").fetchall()
    assert events == [("order", '{"n": 1}'), ("order", '{"n": 2}')]


def test_ingest_watches_a_folder_until_stopped(add, db, tmp_path: Path):
    stop, reported = threading.Event(), []

    def run() -> None:
        add(once=False, every_s=0.05, stop=stop, on_progress=reported.append)

    thread = threading.Thread(target=run)
    thread.start()
    lines(tmp_path / "a.jsonl", "1")
    wait_until(lambda: messages(db) == ["1"], "the first file")
    lines(tmp_path / "b.jsonl", "2")
    wait_until(lambda: messages(db) == ["1", "2"], "the second file")
    stop.set()
    thread.join(20)

    assert not thread.is_alive()
    assert isinstance(reported[-1], Progress)
    assert (reported[-1].rows, reported[-1].files) == (2, 2)


def test_memory_does_not_grow_with_the_file(add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingesting, "_PART_BYTES", 100_000)
    lines(tmp_path / "a.jsonl", *('"' + "x" * 1000 + '"' for _ in range(4_000)))

    tracemalloc.start()
    try:
        progress = add(batch_rows=4_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert progress.rows == 4_000
    assert peak_bytes < 1_500_000


def test_role_that_may_only_send_can_ingest(
    add, db: psycopg.Connection, database_18: Database, tmp_path: Path
):
    lines(tmp_path / "a.jsonl", "1")
    db.execute("create role ingest_sender login in role sluice_writer")
    try:
        progress = add(dsn=make_conninfo(database_18.url, user="ingest_sender"))
    finally:
        db.execute("drop role ingest_sender")

    assert progress.rows == 1


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ({"queue": "none"}, QueueNotFoundError, "queue 'none' does not exist"),
        ({"queue": None, "log": "none"}, LogNotFoundError, "event log 'none' does not exist"),
        ({"queue": None}, ConfigurationError, "pass either queue or log"),
        ({"log": "l"}, ConfigurationError, "not both"),
        ({"batch_rows": 0}, ConfigurationError, "batch_rows is 0"),
    ],
)
def test_impossible_request_is_named(
    add, tmp_path: Path, how, kind: type[SluiceError], message: str
):
    with pytest.raises(kind, match=message):
        add(**how)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", r"file .*none\.jsonl does not exist"),
        ("a.txt", r"a\.txt ends in none of \.jsonl"),
        ("s3://bucket/a.jsonl", "is a URL; copy the file to a local folder first"),
        ("blank.csv", "has no column names in its first row: it is blank"),
        ("twice.csv", "names a column twice"),
    ],
)
def test_files_that_cannot_be_read_are_named(add, tmp_path: Path, name: str, message: str):
    (tmp_path / "a.txt").touch()
    lines(tmp_path / "blank.csv", "", "1,2")
    lines(tmp_path / "twice.csv", "a,a")

    with pytest.raises(ConfigurationError, match=message):
        add(name if "://" in name else tmp_path / name)
