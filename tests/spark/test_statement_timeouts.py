"""A statement_timeout of the role or the database does not end the reads of pipelines and of `verify`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pgsluice.errors import RetryableError
from pgsluice.spark import arrow_adbc, arrow_psycopg
from pgsluice.spark.access import Access
from pgsluice.verify import verify_current
from spark.conftest import LOG
from spark.test_changes import Place, place
from support.pooler import pooling
from support.servers import Database

__all__ = ["place"]

SLOW = "select 1::bigint as n, pg_sleep(0.4)::text as s"
Read = Callable[..., Iterator[pa.RecordBatch]]
READERS: dict[str, Read] = {
    "adbc": arrow_adbc.read,
    "copy": arrow_psycopg.read_by_copy,
    "rows": arrow_psycopg.read_rows,
}


@pytest.fixture(params=["role", "database"])
def limit(request: pytest.FixtureRequest, db: psycopg.Connection, database_18: Database) -> str:
    """A DSN whose role or database limits statements to 0.2 seconds, and a table that takes longer to read."""
    db.execute("create table slow (id int primary key, v text)")
    db.execute("insert into slow values (1, 'a')")
    db.execute("create role limited login superuser")
    if request.param == "role":
        db.execute("alter role limited set statement_timeout = '200ms'")
    else:
        db.execute(f"alter database {database_18.name} set statement_timeout = '200ms'")
    yield psycopg.conninfo.make_conninfo(database_18.url, user="limited")
    arrow_adbc.close_idle()
    db.execute("drop role limited")


@pytest.mark.parametrize("prepare", [(), ("begin read only",)])
@pytest.mark.parametrize("reader", READERS)
def test_slow_read_ends_with_its_rows(reader: str, prepare: tuple[str, ...], limit: str):
    (batch,) = READERS[reader](Access(dsn=limit), SLOW, prepare)

    assert batch.column("n").to_pylist() == [1]


@pytest.mark.parametrize("limit", ["database"], indirect=True)
@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("reader", READERS)
def test_slow_read_behind_a_pooler_that_refuses_options_ends_with_its_rows(
    reader: str, mode: str, limit: str, servers_folder: Path
):
    with pooling(limit, servers_folder, mode=mode) as pooled:
        for prepare in ((), ("begin read only",), ()):
            (batch,) = READERS[reader](Access(dsn=pooled), SLOW, prepare)
            assert batch.column("n").to_pylist() == [1]
        arrow_adbc.close_idle()
        with psycopg.connect(pooled, autocommit=True) as other:
            left = other.execute("show statement_timeout").fetchone()

    assert left == ("200ms",)


@pytest.mark.parametrize("limit", ["database"], indirect=True)
@pytest.mark.parametrize("behind_a_pooler", [False, True])
def test_slow_comparison_ends(
    behind_a_pooler: bool, limit: str, db: psycopg.Connection, servers_folder: Path, tmp_path: Path
):
    db.execute(
        "create function slowly(text) returns text language sql as 'select $1 from pg_sleep(0.4)'"
    )
    db.execute("create view slow_view as select id, slowly(v) as v from slow")
    write_deltalake(str(tmp_path / "lake"), pa.table({"id": [1], "v": ["a"]}))

    if behind_a_pooler:
        with pooling(limit, servers_folder) as pooled:
            report = verify_current("slow_view", tmp_path / "lake", key=["id"], dsn=pooled)
    else:
        report = verify_current("slow_view", tmp_path / "lake", key=["id"], dsn=limit)

    assert report.equal


@pytest.mark.parametrize("limit", ["role"], indirect=True)
@pytest.mark.parametrize("reader", READERS)
def test_limit_of_the_dsn_ends_a_read_with_a_hint(reader: str, limit: str):
    dsn = psycopg.conninfo.make_conninfo(limit, options="-c statement_timeout=100ms")

    with pytest.raises(
        RetryableError, match=r"statement timeout.*alter role NAME set statement_timeout"
    ):
        list(READERS[reader](Access(dsn=dsn), SLOW, ()))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["delta"], indirect=True)
def test_pipeline_reads_large_rows_under_a_short_limit(place: Place, log: psycopg.Connection):
    log.execute("create table big (id int primary key, b bytea, n int)")
    log.execute("select sluice.capture('big', %s)", (LOG,))
    log.execute(
        "insert into big select n, convert_to(repeat(md5(n::text), 250000), 'UTF8'), 0 from generate_series(1, 5) as n"
    )
    log.execute("update big set n = n + 1")
    log.execute(f"alter database {log.info.dbname} set statement_timeout = '250ms'")

    place.run(snapshots=["big"])

    assert len(place.rows("public.big")) == 5
    assert place.equal("public.big")
