"""The lake table, checkpoint, consumer name and Spark session of a pipeline."""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.file_errors import plain_errors, require_writable
from pgsluice.lake.properties import property_of, set_property
from pgsluice.lake.storage import Folder, folder_at, read_bytes, remove_folder, write_whole
from pgsluice.spark.checkpoint import last_planned, last_written, query_id
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.session import QUICK, register, spark_session
from pgsluice.spark.stored_checkpoint import address_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pgsluice.lake.table import LakeTable

_log = logging.getLogger(__name__)
_CONSUMER = "consumer"
_PROPERTY = "pgsluice.consumer"
_SIZE = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)


def session_for(
    spark: SparkSession | None, app_name: str, *, driver_memory: str | None = None
) -> SparkSession:
    """Return a Spark session with our formats registered: the caller's, or a new one if None.

    Args:
        spark: The caller's session.
        app_name: Name of a new one.
        driver_memory: Maximum memory of a new Java process, as Spark writes sizes: `2g`, `512m`; None: the default.

    Raises:
        ConfigurationError: The memory is not a size.
    """
    if driver_memory is not None and not _SIZE.fullmatch(driver_memory):
        raise ConfigurationError(
            f"driver_memory {driver_memory!r} is not a size of memory; write a number and a unit, such as 512m or 2g"
        )
    if spark is None:
        conf = {**QUICK, **({"spark.driver.memory": driver_memory} if driver_memory else {})}
        return spark_session(app_name, conf=conf)
    register(spark)
    return spark


def local_folder(checkpoint: Folder, cleanup: ExitStack) -> Path:
    """Return the folder into which Spark writes a checkpoint: its own, or for an object store a temporary one."""
    if isinstance(checkpoint, Path):
        return checkpoint
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-checkpoint-"))
    cleanup.callback(remove_folder, folder)
    return folder


def delta_folder(path: str | Path, what: str) -> Folder:
    """Return a folder that is no Iceberg table, on disk or in an object store.

    Args:
        path: A folder, which need not exist, or its URL.
        what: Its purpose, for the error: `lake`, `gold`, `checkpoint`.

    Raises:
        ConfigurationError: It is empty, an unsupported URL or the address of an Iceberg table.
    """
    if str(path).startswith("iceberg:"):
        raise ConfigurationError(
            f"the {what} {str(path)!r} is an Iceberg table; use the path or URL of a folder"
        )
    return folder_at(path, what)


def _new_consumer(lake: Folder | IcebergAddress) -> str:
    name = lake.identifier if isinstance(lake, IcebergAddress) else lake.name
    # Two tables may have the same name in two folders.
    return f"spark:{name}:{hashlib.sha256(str(lake).encode()).hexdigest()[:8]}"


def own_consumer(lake: Folder | IcebergAddress, checkpoint: Folder) -> str:
    """Return the consumer name recorded in the checkpoint, else in the lake table, else a new one for this table."""
    return _noted(checkpoint) or property_of(lake, _PROPERTY) or _new_consumer(lake)


def record_consumer(consumer: str, lake: Folder | IcebergAddress, checkpoint: Path) -> None:
    """Store the stream's consumer name in its checkpoint and its lake table, so that moving them does not change it."""
    _note(consumer, checkpoint)
    set_property(lake, _PROPERTY, consumer)


def _note(consumer: str, checkpoint: Path) -> None:
    noted = _noted(checkpoint)
    if noted == consumer:
        return
    if noted is not None:
        _log.warning(
            "consumer renamed; the former one still keeps events in the log until it is unregistered",
            extra={"consumer": consumer, "former": noted},
        )
    write_whole(checkpoint, _CONSUMER, consumer.encode())


def _noted(checkpoint: Folder) -> str | None:
    with (
        plain_errors(f"the checkpoint {checkpoint}"),
        suppress(FileNotFoundError, NotADirectoryError),
    ):
        return read_bytes(checkpoint, _CONSUMER).decode() or None
    return None


def open_table(
    lake: Folder | IcebergAddress,
    checkpoint: Path,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
) -> LakeTable:
    """Open the lake table; create it on the first run.

    Raises:
        ConfigurationError: Table and checkpoint do not belong together, or the table has other columns or other
            partition columns.
    """
    from pgsluice.spark.lake_tables import table_at

    if not isinstance(lake, IcebergAddress):
        require_writable(lake, "lake")
    table = table_at(lake, schema, partition_by=partition_by)
    is_table = table.exists()
    has_run = last_planned(checkpoint) >= 0
    place = address_of(checkpoint)
    if has_run and not is_table:
        raise ConfigurationError(
            f"the checkpoint {place} belongs to the lake table {lake}, which does not exist; "
            "restore the table, or start with another checkpoint, which reads the log again"
        )
    if is_table and not has_run and table.row_count():
        raise ConfigurationError(
            f"the lake table {lake} holds rows, and the checkpoint {place} is new, which would add events "
            "twice; use the checkpoint of this table, or another table"
        )
    if (query := query_id(checkpoint)) is not None:
        _require_same_position(table, str(lake), checkpoint, query)
    require_writable(table.folder, "lake")
    require_writable(checkpoint, "checkpoint")
    table.create()
    return table


def _require_same_position(table: LakeTable, lake: str, checkpoint: Path, query: str) -> None:
    """Check that a lake table has exactly the micro-batches that a checkpoint has written.

    Raises:
        ConfigurationError: One is a copy or a backup from another time, or of another stream.
    """
    app_id, place = MicroBatch(query, 0).app_id, address_of(checkpoint)
    committed = table.last_version(app_id)
    hint = "use the table and the checkpoint that were used together last"
    if committed is None and table.row_count():
        raise ConfigurationError(
            f"the lake table {lake} holds rows of another checkpoint than {place}; {hint}"
        )
    # Not `committed or -1`: the id of the first micro-batch is 0.
    newest = -1 if committed is None else committed
    if newest > last_planned(checkpoint):
        raise ConfigurationError(
            f"the lake table {lake} has rows that {place} has not written, so that checkpoint is a copy or a "
            f"backup, which would lose events; {hint}"
        )
    if newest < last_written(checkpoint, app_id):
        raise ConfigurationError(
            f"the lake table {lake} lacks rows that {place} has written, so that table is a copy or a backup, "
            f"which would lose events; {hint}"
        )
