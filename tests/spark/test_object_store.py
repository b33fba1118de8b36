"""Lake tables in an object store without Spark: exactly-once commits, also while the store fails."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import CommitProperties, Transaction

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake import reservation
from pgsluice.lake.delta.commits import commit_once
from pgsluice.lake.delta.merge import Changes, apply
from pgsluice.lake.delta.opening import Use, open_dataset, open_delta
from pgsluice.lake.file_errors import require_writable
from pgsluice.lake.files import LakeFile
from pgsluice.lake.jobs import compact, show, vacuum
from pgsluice.lake.properties import property_of, set_property
from pgsluice.lake.storage import (
    ObjectFolder,
    files_in,
    filesystem,
    folder_at,
    folders_in,
    write_whole,
)
from pgsluice.lake.table import LakeTable, Replace
from pgsluice.pipelines.current_state.bad_values import RejectedValue, store_rejects
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import struct
from spark.lake_reading import delta_rs_rows, lake_column
from support.object_store import ObjectStore

SCHEMA = struct(id="long", kind="string")
ROWS = pa.schema([("id", pa.int64()), ("kind", pa.string())])
LOG = "_delta_log"


@pytest.fixture
def lake(object_store: ObjectStore) -> Iterator[str]:
    yield f"s3://lake/folder with spaces/{uuid4()}"
    assert object_store.faults_left() == 0


def table(lake: str, **options: object) -> LakeTable:
    return table_at(lake, SCHEMA, **options)


def write(one: LakeTable, *ids: int, kind: str | None = "a") -> tuple[LakeFile, ...]:
    rows = [{"id": i, "kind": kind} for i in ids]
    return one.write([pa.RecordBatch.from_pylist(rows, ROWS)], part=0)


def add(lake: str, *ids: int, version: int | None, app_id: str | None = "app") -> bool:
    one = table(lake)
    return one.commit(write(one, *ids), app_id=app_id, version=version)


def ids(lake: str) -> list[int]:
    return sorted(open_dataset(lake).to_table(columns=["id"]).column("id").to_pylist())


def test_a_replayed_commit_adds_nothing(lake: str):
    assert add(lake, 1, 2, version=0)
    assert not add(lake, 1, 2, version=0)
    assert add(lake, 3, version=1)

    assert ids(lake) == [1, 2, 3]
    assert table(lake).row_count() == 3
    # Read by delta-rs alone.
    assert sorted(delta_rs_rows(DeltaTable(lake)).column("id").to_pylist()) == [1, 2, 3]


def test_partition_values_are_read_back_whatever_their_characters(lake: str):
    one = table(lake, partition_by=["kind"])
    kinds = ["plain", "with space", "50%", "a/b:c", "a=b", "é", None]
    one.commit(
        [file for i, kind in enumerate(kinds) for file in write(one, i, kind=kind)],
        app_id="app",
        version=0,
    )

    for rows in (open_dataset(lake).to_table(), delta_rs_rows(DeltaTable(lake))):
        found = dict(
            zip(rows.column("id").to_pylist(), rows.column("kind").to_pylist(), strict=True)
        )
        assert found == dict(enumerate(kinds))


def test_of_two_writers_with_the_same_micro_batch_one_commits(lake: str):
    def zombie(_number: int) -> bool:
        try:
            return add(lake, 1, version=1)
        except SluiceError:
            return False

    add(lake, 0, version=0)
    with ThreadPoolExecutor(4) as threads:
        committed = sum(threads.map(zombie, range(4)))

    assert (committed, ids(lake)) == (1, [0, 1])


@pytest.mark.slow
def test_writers_of_several_apps_lose_no_commit(lake: str):
    def writer(number: int) -> None:
        for version in range(5):
            while not _added(lake, number * 100 + version, f"app {number}", version):
                pass

    table(lake).create()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(writer, range(4)))

    assert ids(lake) == [number * 100 + version for number in range(4) for version in range(5)]


def _added(lake: str, row: int, app_id: str, version: int) -> bool:
    try:
        add(lake, row, version=version, app_id=app_id)
    except SluiceError:
        return False
    return True


@pytest.mark.parametrize("app_id", ["app", None])
@pytest.mark.parametrize("how", ["500", "503", "cut", "lost"])
@pytest.mark.parametrize("path", [LOG, "part-"])
def test_a_request_that_fails_neither_loses_nor_doubles_rows(
    lake: str, object_store: ObjectStore, path: str, how: str, app_id: str | None
):
    add(lake, 0, version=0)
    one = table(lake)
    object_store.fail(how, path=path, count=1 if how == "lost" else 2)

    added = one.commit(write(one, 1), app_id=app_id, version=None if app_id is None else 1)

    assert ids(lake) == [0, 1]
    assert app_id is None or one.last_version(app_id) == 1
    # The answer is lost, so this writer finds its commit as that of another.
    assert added is not (how == "lost" and path == LOG and app_id is not None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "how", "app_id", "replace"),
    [
        (LOG, "hang", "app", None),
        (LOG, "hang-after", "app", None),
        (LOG, "hang-after", None, None),
        (LOG, "hang-after", None, Replace.TABLE),
        ("part-", "hang-after", "app", None),
    ],
)
def test_a_request_without_an_answer_times_out_and_its_commit_is_made_once(
    lake: str,
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    how: str,
    app_id: str | None,
    replace: Replace | None,
):
    monkeypatch.setenv("AWS_TIMEOUT", "1s")
    add(lake, 0, version=0)
    one, before = table(lake), show(lake).version
    object_store.fail(how, path=f"/{path}")

    one.commit(write(one, 1), app_id=app_id, version=None if app_id is None else 1, replace=replace)

    assert ids(lake) == ([1] if replace else [0, 1])
    assert show(lake).version == before + 1


@pytest.mark.parametrize("how", [pytest.param("hang", marks=pytest.mark.slow), "hang-after"])
def test_a_new_table_and_a_new_column_are_created_although_the_store_does_not_answer(
    lake: str, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, how: str
):
    monkeypatch.setenv("AWS_TIMEOUT", "1s")
    object_store.fail(how, path="/_delta_log/")
    table(lake).create()
    object_store.fail(how, path="/_delta_log/")
    table_at(lake, struct(id="long", kind="string", note="string"), merge_schema=True).create()

    assert open_dataset(lake).schema.names == ["id", "kind", "note"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hang", "hang-after"])
def test_rows_and_properties_are_changed_once_although_the_store_does_not_answer(
    lake: str, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, how: str
):
    monkeypatch.setenv("AWS_TIMEOUT", "1s")
    add(lake, 0, version=0)
    folder = folder_at(lake)
    rejects = [RejectedValue("public.a", "b", "{}", 1, 0, "one", "not a number")]

    def merge(newest: DeltaTable) -> None:
        changes = Changes(pa.table({"id": [0, 1], "kind": ["b", "b"]}, ROWS), ["id"], "id")
        transaction = CommitProperties(app_transactions=[Transaction("merge", 1)])
        apply(changes, newest, transaction)

    def reopened() -> DeltaTable:
        return open_delta(folder, Use.MERGE)

    object_store.fail(how, path="/_delta_log/")
    commit_once(reopened(), merge, reopen=reopened, app_id="merge", version=1)
    object_store.fail(how, path="/_delta_log/")
    set_property(folder, "pgsluice.test", "set")
    for path in ("/_delta_log/00000000000000000000.json", "/_delta_log/00000000000000000001.json"):
        object_store.fail(how, path=f"rejects{path}")
    store_rejects(folder / "rejects", "public.a", rejects, app_id="app", version=0)

    assert open_dataset(folder / "rejects").to_table().column("value").to_pylist() == ["one"]
    assert ids(lake) == [0, 1]
    assert property_of(folder, "pgsluice.test") == "set"
    assert show(lake).version == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "how", "count"),
    [
        ("/metadata/", "hang", 1),
        ("/metadata/", "503", 4),  # more than pyiceberg's attempts
        ("/metadata/", "lost", 4),
        ("/data/", "hang-after", 1),
    ],
)
def test_a_snapshot_of_an_iceberg_table_is_committed_once_although_requests_fail(
    object_store: ObjectStore,
    iceberg_in_store: str,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    how: str,
    count: int,
):
    monkeypatch.setenv("PYICEBERG_CATALOG__STORE__S3__REQUEST_TIMEOUT", "1")
    add(iceberg_in_store, 0, version=0)
    object_store.fail(how, path=path, count=count)

    assert add(iceberg_in_store, 1, version=1)

    assert object_store.faults_left() == 0
    assert lake_column(iceberg_in_store, "id") == [0, 1]
    assert not add(iceberg_in_store, 1, version=1)
    assert len(show(iceberg_in_store).history) == 2


def test_a_time_out_in_other_units_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_TIMEOUT", "1 minute")
    with pytest.raises(ConfigurationError, match=r"AWS_TIMEOUT is '1 minute'; use .* such as 30s"):
        require_writable(folder_at("s3://lake/a"), "lake")


def test_compaction_keeps_the_rows_and_its_old_files_stay_for_a_day(lake: str):
    for version in range(4):
        add(lake, version, version=version)

    compacted = compact(lake)

    assert (compacted.files_removed, compacted.files_added) == (4, 1)
    assert ids(lake) == [0, 1, 2, 3]
    state = show(lake)
    assert (state.rows, state.files) == (4, 1)
    with pytest.raises(ConfigurationError, match="invalid retention of 2 hours .* use 24 or more"):
        vacuum(lake, retention_hours=2)
    assert vacuum(lake, retention_hours=24).files == []


def test_only_old_files_that_the_table_does_not_reference_are_removed(
    lake: str, monkeypatch: pytest.MonkeyPatch
):
    add(lake, 1, version=0)
    one, folder = table(lake), folder_at(lake)
    orphan, late = write(one, 2)[0].path, write(one, 3)[0].path
    in_table = {name for name, _, _ in files_in(folder)} - {orphan, late}
    names = in_table | {orphan, late}
    day = 24 * 3600.0
    assert reservation.remove_unreferenced(folder, names, age_s=day, named=lambda: in_table) == {}

    ahead = time.time() + day + 60
    monkeypatch.setattr(reservation, "time", SimpleNamespace(time=lambda: ahead))
    removed = reservation.remove_unreferenced(
        folder, names, age_s=day, named=lambda: in_table | {late}
    )

    assert list(removed) == [orphan]
    assert {name for name, _, _ in files_in(folder)} == in_table | {late}


def test_files_that_a_vacuum_may_remove_are_not_committed(
    lake: str, monkeypatch: pytest.MonkeyPatch
):
    one = table(lake)
    one.create()
    written = write(one, 1)
    late = time.time() + 23 * 3600 + 60
    monkeypatch.setattr(reservation, "time", SimpleNamespace(time=lambda: late))

    with pytest.raises(SluiceError, match="was written 23 hours ago, and a vacuum may remove it"):
        one.commit(written, app_id="app", version=0)

    assert ids(lake) == []


def test_a_task_that_fails_leaves_no_file(lake: str):
    one = table(lake)
    bad = pa.RecordBatch.from_pylist([{"id": "one", "kind": "a"}])

    with pytest.raises(SluiceError, match="column 'id' cannot be read as int64"):
        one.write([pa.RecordBatch.from_pylist([{"id": 1, "kind": "a"}], ROWS), bad], part=0)

    assert list(files_in(folder_at(lake))) == []


def test_tables_in_a_folder_are_listed(lake: str):
    for name in ("public.b", "public.a"):
        table(f"{lake}/{name}").create()

    assert folders_in(folder_at(lake)) == ["public.a", "public.b"]
    assert folders_in(folder_at(f"{lake}/none")) == []


def test_an_object_of_any_size_replaces_another(lake: str):
    folder = folder_at(lake)
    for content in (b"short", bytes(range(256)) * 10_000):
        write_whole(folder, "report.html", content)

        assert [size for _, size, _ in files_in(folder)] == [len(content)]
        assert filesystem(folder).open_input_file("report.html").read() == content


def test_a_bucket_that_does_not_exist_is_named(object_store: ObjectStore):
    with pytest.raises(
        ConfigurationError, match=r"the lake s3://none/a is not writable: .*NO_SUCH_BUCKET"
    ):
        require_writable(folder_at("s3://none/a"), "lake")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://key:sesame@bucket/lake", "holds a password"),
        ("s3://bucket", "is a whole bucket; use a folder in it, such as s3://bucket/lake"),
        ("ftp://host/lake", "neither a folder nor in a supported object store"),
        ("s3:///lake", "neither a folder nor in a supported object store"),
        ("  ", "the lake is empty"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, message: str):
    with pytest.raises(ConfigurationError, match=message) as caught:
        folder_at(url)
    assert "sesame" not in str(caught.value)


def test_urls_of_hadoop_and_of_the_cloud_name_the_same_folder():
    assert folder_at("s3a://bucket/lake/") == ObjectFolder("s3://bucket/lake")
    there = folder_at("abfss://container@account.dfs.core.windows.net/lake")
    assert (there / "current" / "public.a").name == "public.a"
    assert pickle.loads(pickle.dumps(there)) == there
