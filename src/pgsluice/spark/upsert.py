"""Rows in the place of those with the same key: with MERGE of Delta's own jar, or with delta-rs on the driver.

    def apply(rows, batch_id):
        upsert("/lake/stock", rows, key=["item"], seq="seq", app_id="stock", version=batch_id)

    stream.writeStream.foreachBatch(apply).start()

A session that was started with Delta's jar and its extension merges on the executors, whatever the size. Without,
the driver merges: it holds the rows, and the files of the table that they touch.
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
from pgsluice.lake.delta.merge import Changes, apply
from pgsluice.lake.delta.opening import Use, open_delta
from pgsluice.spark.lake_tables import delta_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
# Delta's own names for what the writer's options txnAppId and txnVersion say.
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
    """Put each row in the place of the one with its key, or add it; once for each version of an app.

    Of several rows with one key the one with the highest `seq` counts, and none that is not above the table's:
    what comes late, or again, changes nothing.

    Args:
        lake: A Delta table's folder; made with the rows' columns when it is not there.
        rows: With the table's columns.
        key: Columns that name a row; none of them null.
        seq: A column that rises with each change of a row.
        app_id: Who applies them.
        version: Rises with each call of this app; its first may be 0.

    Returns:
        False when this or a later version was applied already; nothing is done then.

    Raises:
        ConfigurationError: It is no Delta table, or has other columns; a key or `seq` is no column.
        SluiceError: Other commits came between again and again; nothing was changed.
    """
    place = parse(lake)
    if isinstance(place, IcebergAddress):
        raise ConfigurationError(
            f"{place} is an Iceberg table; only Delta tables can be merged into"
        )
    missing = [name for name in (*key, seq) if name not in rows.columns]
    if missing or not key:
        raise ConfigurationError(
            f"the rows have the columns {', '.join(rows.columns)}, and not {', '.join(missing) or 'a key'}"
        )
    table = delta_table(place, rows.schema)
    if is_committed(table.create(), app_id, version):
        return False
    newest = _newest(rows, key, seq)
    if has_merge(rows.sparkSession):
        _merge_with_jar(table.path, newest, key, seq, app_id, version)
        return True
    return _merge_on_driver(Path(table.path), newest.toArrow(), key, seq, app_id, version)


def has_merge(spark: SparkSession) -> bool:
    """Whether a session has Delta's own jar, and with it MERGE."""
    if _EXTENSION not in spark.conf.get("spark.sql.extensions", ""):
        return False
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001
    try:
        loader.loadClass(_EXTENSION)
    except Py4JJavaError:
        return False  # named and not there, which Spark itself only logs
    return True


def merge_statement(
    path: str, source: str, columns: Sequence[str], key: Sequence[str], seq: str
) -> str:
    """Spark's MERGE that does what `upsert` says."""
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
    there = f.lit(True)
    for name in known:
        there &= name.isNotNull()
    checked = rows.where(
        f.assert_true(there, f"a row has null in its key ({', '.join(key)})").isNull()
    )
    last = f.max_by(f.struct(*columns), f.col(_quoted(seq))).alias("last")
    return checked.groupBy(*known).agg(last).select("last.*")


def _merge_with_jar(
    path: str, newest: DataFrame, key: Sequence[str], seq: str, app_id: str, version: int
) -> None:
    # Within foreachBatch a session of the query's own: nobody else's commits see these settings.
    spark = newest.sparkSession
    newest.createOrReplaceTempView(_SOURCE_VIEW)
    with _settings(spark, dict(zip(_TXN_SETTINGS, (app_id, str(version)), strict=True))):
        spark.sql(merge_statement(path, _SOURCE_VIEW, newest.columns, key, seq))


def _merge_on_driver(
    folder: Path, rows: Any, key: Sequence[str], seq: str, app_id: str, version: int
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
            f"the lake table in {folder} refused {COMMITS_MAX} commits, as others came before: {error}; run it again"
        ) from error
    return committed is not None


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
    """A name as Spark's SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"
