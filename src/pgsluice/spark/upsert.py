"""Upsert rows by key into a Delta or Iceberg table.

    def apply(rows, batch_id):
        upsert("/lake/stock", rows, key=["item"], seq="seq", app_id="stock", version=batch_id)

    stream.writeStream.foreachBatch(apply).start()

Into a Delta table, a session with Delta's jar and extension merges on the executors, at any size. Otherwise the driver
merges with delta-rs, and the rows and the affected files of the table must fit into its memory. Into an Iceberg table
the driver merges by copy-on-write: the rows must fit into its memory, and one row group of a file at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties, Transaction

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.commits import COMMITS_MAX, commit_once, is_committed
from pgsluice.lake.delta.merge import apply
from pgsluice.lake.delta.opening import Use, open_delta
from pgsluice.lake.mutable import Changes
from pgsluice.lake.storage import Folder
from pgsluice.spark.lake_tables import delta_table, iceberg_table
from pgsluice.spark.session import is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.lake.table import LakeTable

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
# Session settings equivalent to Delta's writer options txnAppId and txnVersion.
_TXN_SETTINGS = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_SOURCE_VIEW = "pgsluice_upsert"


def upsert(
    lake: str | Path,
    rows: DataFrame,
    *,
    key: Sequence[str],
    seq: str,
    app_id: str,
    version: int,
) -> bool:
    """Update or insert rows by key, idempotent by app and version.

    For each key, the row with the highest `seq` is applied if its `seq` is higher than the table's, so late and
    duplicate rows have no effect.

    Args:
        lake: Folder of a Delta table, or `iceberg:catalogue/namespace.table` without partitions; created with the
            columns of the rows if it does not exist.
        rows: Rows with the table's columns.
        key: Non-null columns that identify a row.
        seq: Column that increases with each change of a row.
        app_id: Id of the app.
        version: Increases with each call of this app; the first may be 0.

    Returns:
        False if this or a later version is already applied; nothing is changed.

    Raises:
        ConfigurationError: It is not such a table or has other columns, or a key column or `seq` does not exist.
        SluiceError: Commits conflicted; nothing was changed.
    """
    place = parse(lake)
    missing = [name for name in (*key, seq) if name not in rows.columns]
    if missing or not key:
        raise ConfigurationError(
            f"the rows have the columns {', '.join(rows.columns)}, not {', '.join(missing) or 'a key'}"
        )
    if isinstance(place, IcebergAddress):
        return _merge_into_iceberg(place, rows, key, seq, app_id, version)
    table = delta_table(place, rows.schema)
    existing = table.create()
    _require_columns(table, [field.name for field in existing.schema().fields], rows)
    if is_committed(existing, app_id, version):
        return False
    newest = _newest(rows, key, seq)
    if has_merge(rows.sparkSession):
        _merge_with_jar(table.path, newest, key, seq, app_id, version)
        return True
    return _merge_on_driver(table.folder, newest.toArrow(), key, seq, app_id, version)


def has_merge(spark: SparkSession) -> bool:
    """True if a session has Delta's jar, which supports MERGE."""
    if _EXTENSION not in spark.conf.get("spark.sql.extensions", ""):
        return False
    if is_connect(spark):
        return True  # without its jar, the session's catalogue would not work either
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001
    try:
        loader.loadClass(_EXTENSION)
    except Py4JJavaError:
        return False  # configured but missing, which Spark only logs
    return True


def merge_statement(
    path: str, source: str, columns: Sequence[str], key: Sequence[str], seq: str
) -> str:
    """Return Spark's MERGE statement for `upsert`."""
    same = " and ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in key)
    sets = ", ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in columns)
    names = ", ".join(map(_quoted, columns))
    values = ", ".join(f"s.{_quoted(name)}" for name in columns)
    return (  # every name is quoted
        f"merge into delta.{_quoted(path)} as t using {_quoted(source)} as s on {same}\n"  # noqa: S608
        f"when matched and s.{_quoted(seq)} > t.{_quoted(seq)} then update set {sets}\n"
        f"when not matched then insert ({names}) values ({values})"
    )


def _newest(rows: DataFrame, key: Sequence[str], seq: str) -> DataFrame:
    from pyspark.sql import functions as f

    columns = [f.col(_quoted(name)) for name in rows.columns]
    known = [f.col(_quoted(name)) for name in key]
    has_key = f.lit(True)
    for name in known:
        has_key &= name.isNotNull()
    checked = rows.where(
        f.assert_true(has_key, f"a row has null in its key ({', '.join(key)})").isNull()
    )
    last = f.max_by(f.struct(*columns), f.col(_quoted(seq))).alias("last")
    return checked.groupBy(*known).agg(last).select("last.*")


def _merge_with_jar(
    path: str, newest: DataFrame, key: Sequence[str], seq: str, app_id: str, version: int
) -> None:
    # In foreachBatch the session belongs to the query, so these settings affect no other commits.
    spark = newest.sparkSession
    newest.createOrReplaceTempView(_SOURCE_VIEW)
    with _settings(spark, dict(zip(_TXN_SETTINGS, (app_id, str(version)), strict=True))):
        spark.sql(merge_statement(path, _SOURCE_VIEW, newest.columns, key, seq))


def _merge_on_driver(
    folder: Folder, rows: Any, key: Sequence[str], seq: str, app_id: str, version: int
) -> bool:
    changes = Changes(rows, key, seq)
    properties = CommitProperties(app_transactions=[Transaction(app_id, version)])
    try:
        committed = commit_once(
            open_delta(folder, Use.MERGE),
            lambda table: apply(changes, table, properties),
            reopen=lambda: open_delta(folder, Use.MERGE),
            app_id=app_id,
            version=version,
        )
    except CommitFailedError as error:
        raise SluiceError(
            f"the lake table in {folder} refused {COMMITS_MAX} commits after conflicts: {error}; run it again"
        ) from error
    return committed is not None


def _merge_into_iceberg(
    address: IcebergAddress,
    rows: DataFrame,
    key: Sequence[str],
    seq: str,
    app_id: str,
    version: int,
) -> bool:
    from pgsluice.lake.iceberg.mutable import IcebergMutableTable

    table = iceberg_table(address, rows.schema)
    table.create()
    existing = IcebergMutableTable.existing(address)
    _require_columns(table, existing.columns.names, rows)
    if existing.partition_by:
        raise ConfigurationError(
            f"{table} has partitions, which upsert does not support in Iceberg tables; use a table without them"
        )
    last = existing.last_version(app_id)
    if last is not None and last >= version:
        return False
    newest = _newest(rows, key, seq).toArrow().select(existing.columns.names).cast(existing.columns)
    changes = Changes(newest, key, seq)
    committed = existing.commit_once(
        lambda table: table.merge(changes, {app_id: version}), app_id=app_id, version=version
    )
    return committed is not None


def _require_columns(table: LakeTable, columns: Sequence[str], rows: DataFrame) -> None:
    lacking = [name for name in columns if name not in rows.columns]
    if lacking:
        raise ConfigurationError(
            f"the rows lack the columns {', '.join(lacking)} of {table}; add them"
        )


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _quoted(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
