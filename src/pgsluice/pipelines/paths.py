"""Where a pipeline's table, its checkpoint and its database are."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.disk import sync_file, sync_folder
from pgsluice.lake.file_errors import require_writable
from pgsluice.spark.session import QUICK, register, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pgsluice.lake.table import LakeTable

_log = logging.getLogger(__name__)
_CONSUMER = "consumer"


def session_for(spark: SparkSession | None, app_name: str) -> SparkSession:
    """The caller's session with our formats in it, or one of our own."""
    if spark is None:
        return spark_session(app_name, conf=QUICK)
    register(spark)
    return spark


def folder(path: str | Path, what: str) -> Path:
    """The path, absolute.

    Args:
        path: A folder's; it may not be there yet.
        what: What it is for, to be named in the error: `lake`, `checkpoint`.

    Raises:
        ConfigurationError: It is not a folder's.
    """
    if not str(path).strip():
        raise ConfigurationError(f"the {what} is empty; give a folder's path")
    if "://" in str(path) or str(path).startswith("iceberg:"):
        raise ConfigurationError(f"the {what} {str(path)!r} is not a folder; give a folder's path")
    return Path(path).expanduser().absolute()


def consumer_name(lake: Path | IcebergAddress) -> str:
    """The name under which a stream into this table holds a log."""
    name = lake.identifier if isinstance(lake, IcebergAddress) else lake.name
    # Two tables may have the same name in two folders.
    return f"spark:{name}:{hashlib.sha256(str(lake).encode()).hexdigest()[:8]}"


def note_consumer(consumer: str, checkpoint: Path) -> None:
    """Note in a checkpoint under which name its stream holds a log, so that a lake that is moved keeps the name."""
    noted = noted_consumer(checkpoint)
    if noted == consumer:
        return
    if noted is not None:
        _log.warning(
            "consumer renamed; the former one still holds the log until it is unregistered",
            extra={"consumer": consumer, "former": noted},
        )
    checkpoint.mkdir(parents=True, exist_ok=True)
    new = checkpoint / f"{_CONSUMER}.new"
    new.write_text(consumer)
    sync_file(new)
    new.replace(checkpoint / _CONSUMER)
    sync_folder(checkpoint)


def noted_consumer(checkpoint: Path) -> str | None:
    """Return the name that `note_consumer` noted; None when there is none."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return (checkpoint / _CONSUMER).read_text() or None
    return None


def open_table(lake: Path | IcebergAddress, checkpoint: Path, schema: StructType) -> LakeTable:
    """Make the table on the first run.

    Raises:
        ConfigurationError: It and the checkpoint do not belong together, or it has other columns.
    """
    from pgsluice.spark.lake_tables import table_at

    if isinstance(lake, Path):
        require_writable(lake, "lake")
    table = table_at(str(lake), schema)
    is_table = table.exists()
    has_run = (checkpoint / "metadata").exists()
    if has_run and not is_table:
        raise ConfigurationError(
            f"the checkpoint {checkpoint} says that events are in the lake table {lake}, which is not "
            "there; bring the table back, or start with another checkpoint and read the log again"
        )
    if is_table and not has_run and table.row_count():
        raise ConfigurationError(
            f"the lake table {lake} holds rows, and the checkpoint {checkpoint} is new: events would be "
            "added a second time; use the checkpoint that belongs to the table, or another table"
        )
    require_writable(Path(table.path), "lake")
    require_writable(checkpoint, "checkpoint")
    table.create()
    return table
