"""Iceberg's tables through pyiceberg: catalogues by name, errors with a way out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pgsluice.errors import ConfigurationError, SluiceError, one_line
from pgsluice.extras import require_packages
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.columns import nullable, plain
from pgsluice.lake.disk import sync_file, sync_folder
from pgsluice.lake.iceberg.features import require_iceberg, require_plain

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

Result = TypeVar("Result")

_NEEDED = ("pyiceberg", "sqlalchemy")
_COMMITS_MAX = 20
_PAUSE_S = 0.05


@contextmanager
def opened_catalog(name: str) -> Iterator[Catalog]:
    """The catalogue of that name in pyiceberg's configuration, read anew.

    Raises:
        MissingExtraError: pyiceberg is not installed.
        ConfigurationError: It knows no such catalogue.
        SluiceError: Its database failed, here or in the block; what was being committed may be committed.
    """
    require_packages("Iceberg tables need", _NEEDED, "iceberg")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    settings = Config().get_catalog_config(name)
    if not settings:
        raise ConfigurationError(
            f"pyiceberg knows no catalogue {name!r}; set PYICEBERG_CATALOG__{name.upper()}__URI and "
            f"PYICEBERG_CATALOG__{name.upper()}__WAREHOUSE, or write them into .pyiceberg.yaml"
        )
    properties = {str(key): str(value) for key, value in settings.items()}
    try:
        try:
            catalog = load_catalog(name, **properties)
        except DBAPIError:
            # Two processes may have made its own tables at the same moment, and one of them failed.
            catalog = load_catalog(name, **properties)
        try:
            yield catalog
        finally:
            catalog.close()
    except SQLAlchemyError as error:
        # Its text names the statement; its cause may hold more than that.
        said = _scrubbed(one_line(str(error)), properties.get("uri", ""))
        raise SluiceError(
            f"the Iceberg catalogue {name!r} failed: {said}; run it again: what was committed is recognised"
        ) from None


def retry_conflicts(
    commit: Callable[[], Result], address: IcebergAddress, what: str = "it"
) -> Result:
    """Call a commit again, on the newest state of the table, while other commits come first.

    Raises:
        SluiceError: Other commits came first each time.
    """
    from pyiceberg.exceptions import CommitFailedException

    for number in range(_COMMITS_MAX):
        # Not `Backoff`: the server is there, so a short wait, spread over all of it, lets more writers commit.
        time.sleep(random.uniform(0, number * _PAUSE_S))  # noqa: S311 - not a secret
        try:
            return commit()
        except CommitFailedException as error:
            said = str(error)
    raise SluiceError(
        f"the lake table {address} refused {_COMMITS_MAX} commits, as others came before: {said}; run {what} again"
    )


def load_table(catalog: Catalog, address: IcebergAddress) -> Table | None:
    """The table as it is now; None when it is not there.

    Raises:
        ConfigurationError: It uses what is not implemented here.
    """
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = catalog.load_table(address.identifier)
    except NoSuchTableError:
        return None
    return require_iceberg(table, str(address))


def columns_of(table: Table) -> pa.Schema:
    """Its columns as Arrow has them; each may be null."""
    return nullable(plain(table.schema().as_arrow()))


def partition_columns(table: Table, address: IcebergAddress) -> tuple[str, ...]:
    """The columns by whose values it is partitioned.

    Raises:
        ConfigurationError: It is partitioned by something else, such as the day of a time.
    """
    columns = table.spec().fields
    for column in columns:
        if str(column.transform) != "identity":
            raise ConfigurationError(
                f"the lake table {address} is partitioned by {column.transform} of a column; only the values "
                "of columns are supported: use another table"
            )
    return tuple(column.name for column in columns)


def plain_files(
    table: Table, address: IcebergAddress, *, snapshot_id: int | None = None
) -> list[DataFile]:
    """The files of a snapshot, the newest when None, which must be all there is to know.

    Raises:
        ConfigurationError: Rows were deleted, or columns renamed, in a way that the files do not show; or the
            snapshot has expired.
    """
    if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
        raise ConfigurationError(
            f"the lake table {address} has no snapshot {snapshot_id} any more; read it as it is now"
        )
    tasks = list(table.scan(snapshot_id=snapshot_id).plan_files())
    require_plain(table, tasks, str(address))
    return [task.file for task in tasks]


def local_folder(location: str, address: IcebergAddress) -> Path:
    """The folder of a location.

    Raises:
        ConfigurationError: It is in no folder.
    """
    local = location.removeprefix("file://")
    if "://" in local:
        raise ConfigurationError(
            f"the table {address} is at {location}, which is not a folder; give its catalogue a warehouse that "
            "Spark's driver and executors share"
        )
    return Path(local)


def sync_newest(table: Table) -> None:
    """Force the newest snapshot's metadata to disk: pyiceberg leaves that to the system."""
    paths = [table.metadata_location]
    snapshot = table.current_snapshot()
    if snapshot is not None:
        paths.append(snapshot.manifest_list)
        paths += [
            manifest.manifest_path
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
        ]
    for path in paths:
        sync_file(Path(path.removeprefix("file://")))
    sync_folder(Path(table.metadata_location.removeprefix("file://")).parent)


def _scrubbed(text: str, uri: str) -> str:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        password = make_url(uri).password
    except ArgumentError:
        password = uri
    return text.replace(str(password), "***") if password else text
