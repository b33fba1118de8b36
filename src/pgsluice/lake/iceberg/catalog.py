"""Access Iceberg catalogues and tables through pyiceberg, with translated errors and retries of commit conflicts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pgsluice.errors import ConfigurationError, StoreError, one_line
from pgsluice.extras import require_packages
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.columns import nullable, plain
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.iceberg.features import require_iceberg, require_plain
from pgsluice.lake.skipping import Condition
from pgsluice.lake.storage import Folder, ObjectFolder, folder_at, sync

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

Result = TypeVar("Result")

_NEEDED = ("pyiceberg", "sqlalchemy")
_COMMITS_MAX = 20
_PAUSE_S = 0.05


@contextmanager
def opened_catalog(name: str) -> Iterator[Catalog]:
    """Open a catalogue from pyiceberg's configuration, which is reread on each call.

    Raises:
        MissingExtraError: pyiceberg is not installed.
        ConfigurationError: pyiceberg's configuration has no such catalogue, or it refuses the credentials.
        StoreError: The catalogue failed, here or within the block; a pending commit may be committed.
    """
    require_packages("Iceberg tables need", _NEEDED, "iceberg")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import ForbiddenError, OAuthError, RESTError, UnauthorizedError
    from pyiceberg.utils.config import Config
    from requests.exceptions import RequestException
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    settings = Config().get_catalog_config(name)
    if not settings:
        raise ConfigurationError(
            f"pyiceberg has no catalogue {name!r}; set PYICEBERG_CATALOG__{name.upper()}__URI and "
            f"PYICEBERG_CATALOG__{name.upper()}__WAREHOUSE, or configure it in .pyiceberg.yaml"
        )
    properties = {str(key): str(value) for key, value in settings.items()}
    try:
        for is_last in (False, False, True):
            try:
                catalog = load_catalog(name, **properties)
                break
            except DBAPIError:
                # When several processes create the two tables of the catalogue concurrently, all but one fail at each.
                if is_last:
                    raise
        try:
            yield catalog
        finally:
            catalog.close()
    except (ForbiddenError, OAuthError, UnauthorizedError) as error:
        raise ConfigurationError(
            f"the Iceberg catalogue {name!r} refuses the credentials: {one_line(str(error))}; check its properties"
        ) from None
    except (SQLAlchemyError, RESTError, RequestException) as error:
        # Drop the cause, which may contain the password.
        reason = _scrubbed(one_line(str(error)), properties.get("uri", ""))
        raise StoreError(
            f"the Iceberg catalogue {name!r} failed: {reason}; run it again; commits are idempotent"
        ) from None


def retry_conflicts(
    commit: Callable[[], Result], address: IcebergAddress, what: str = "it"
) -> Result:
    """Retry a commit on the newest version of the table after conflicts with concurrent commits.

    Raises:
        StoreError: All attempts conflicted.
    """
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    for number in range(_COMMITS_MAX):
        # Not `Backoff`: the server is reachable, so short, fully jittered back-off allows more concurrent commits.
        time.sleep(random.uniform(0, number * _PAUSE_S))  # noqa: S311 - not a secret
        try:
            return commit()
        except (CommitFailedException, ValidationException) as error:
            reason = str(error)
    raise StoreError(
        f"the lake table {address} refused {_COMMITS_MAX} commits after conflicts: {reason}; run {what} again"
    )


def load_table(catalog: Catalog, address: IcebergAddress) -> Table | None:
    """Load the newest version of a table; None if it does not exist.

    Raises:
        UnusableTableError: It uses an unsupported feature, or its metadata cannot be read.
    """
    from pyiceberg.exceptions import NoSuchTableError, ValidationError

    try:
        table = catalog.load_table(address.identifier)
    except NoSuchTableError:
        return None
    except (ValidationError, ValueError, FileNotFoundError) as error:
        raise UnusableTableError(
            f"the lake table {address} cannot be opened ({type(error).__name__}): {one_line(str(error))}; restore its "
            "metadata"
        ) from None
    return require_iceberg(table, str(address))


def columns_of(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table, with all columns nullable."""
    return nullable(plain(table.schema().as_arrow()))


def partition_columns(table: Table, address: IcebergAddress) -> tuple[str, ...]:
    """Return the partition columns of a table.

    Raises:
        ConfigurationError: It is partitioned by a transform other than identity, such as `day`.
    """
    columns = table.spec().fields
    for column in columns:
        if str(column.transform) != "identity":
            raise UnusableTableError(
                f"the lake table {address} is partitioned by the transform {column.transform}; only identity "
                "partitions are supported; use another table"
            )
    return tuple(column.name for column in columns)


def plain_files(
    table: Table,
    address: IcebergAddress,
    *,
    snapshot_id: int | None = None,
    conditions: Sequence[Condition] = (),
    any_of: Sequence[Sequence[Condition]] = (),
) -> list[DataFile]:
    """Return the files of a snapshot, if they can be read without Iceberg's metadata.

    Args:
        table: The table.
        address: Its address.
        snapshot_id: The snapshot; None for the newest.
        conditions: Return only files that may contain rows that meet all of them.
        any_of: Return only files that may contain rows that also meet all conditions of one of these, if any.

    Raises:
        ConfigurationError: The snapshot has deleted rows or changed columns that the files do not show, or it has
            expired.
    """
    from pyiceberg.expressions import AlwaysFalse, And, Or

    if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
        raise ConfigurationError(
            f"snapshot {snapshot_id} of the lake table {address} has expired; read the newest snapshot"
        )
    row_filter = _expression(conditions)
    if any_of:
        row_filter = And(row_filter, Or(AlwaysFalse(), AlwaysFalse(), *map(_expression, any_of)))
    tasks = list(table.scan(row_filter, snapshot_id=snapshot_id).plan_files())
    require_plain(table, tasks, str(address), snapshot_id=snapshot_id)
    return [task.file for task in tasks]


def _expression(conditions: Sequence[Condition]) -> BooleanExpression:
    from pyiceberg import expressions as e

    kinds: dict[str, Any] = {
        "=": e.EqualTo,
        "<": e.LessThan,
        "<=": e.LessThanOrEqual,
        ">": e.GreaterThan,
        ">=": e.GreaterThanOrEqual,
        "in": e.In,
        "starts with": e.StartsWith,
        "is null": e.IsNull,
        "is not null": e.NotNull,
    }
    found: BooleanExpression = e.AlwaysTrue()
    for condition in conditions:
        column = e.Reference(condition.column)
        values = () if condition.test.endswith("null") else (condition.value,)
        found = e.And(found, kinds[condition.test](column, *values))
    return found


def new_location(catalog: Catalog, address: IcebergAddress) -> str:
    """Return the location of a new table: in that of its namespace, or else in the warehouse.

    Raises:
        ConfigurationError: Neither is known.
    """
    namespace, _, name = address.identifier.rpartition(".")
    return f"{location_of(catalog, namespace)}/{name}"


def location_of(catalog: Catalog, namespace: str) -> str:
    """Return the location of a namespace, which need not exist; for errors see `new_location`."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    with suppress(NoSuchNamespaceError):
        location = catalog.load_namespace_properties(namespace).get("location")
        if location:
            return str(location).rstrip("/")
    # The warehouse of a REST catalogue may be a name.
    warehouse = str(catalog.properties.get("warehouse", ""))
    if not warehouse.startswith(("/", "file:")) and "://" not in warehouse:
        raise ConfigurationError(
            f"the catalogue {catalog.name!r} has no warehouse with a location; set the property location of the "
            f"namespace {namespace}, or PYICEBERG_CATALOG__{catalog.name.upper()}__WAREHOUSE, to a folder that Spark's "
            "driver and executors share, or a URL such as s3://bucket/lake"
        )
    return f"{warehouse.rstrip('/')}/{namespace.replace('.', '/')}"


def folder_of(location: str, address: IcebergAddress) -> Folder:
    """Return the folder of a location; its files are accessed with the properties of the catalogue.

    Raises:
        ConfigurationError: The location is in an unsupported store.
    """
    folder = folder_at(location, f"location of {address}")
    return ObjectFolder(location, address.catalog) if isinstance(folder, ObjectFolder) else folder


def name_in(folder: Folder, path: str) -> str | None:
    """Return the name of a file relative to a folder; None if it is elsewhere."""
    name = path.removeprefix("file://").removeprefix(f"{folder}/")
    return None if "://" in name or name.startswith("/") else name


def name_of(folder: Folder, file: DataFile) -> str:
    """Return the name of a file relative to the folder of its table, or its absolute path on disk.

    Raises:
        ConfigurationError: It is outside the folder in an object store.
    """
    name = name_in(folder, file.file_path)
    if name is None and isinstance(folder, Path):
        return str(file.file_path).removeprefix("file://")
    if name is None:
        raise UnusableTableError(
            f"the lake table in {folder} has files outside its folder, such as {file.file_path}; copy its rows into a "
            "new table"
        )
    return name


def sync_newest(table: Table, *, with_older: bool = False) -> None:
    """Fsync the metadata of the newest snapshot; pyiceberg does not.

    Args:
        table: The table.
        with_older: Also fsync the manifests that it shares with older snapshots.
    """
    paths = [table.metadata_location]
    snapshot = table.current_snapshot()
    if snapshot is not None:
        paths.append(snapshot.manifest_list)
        paths += [
            manifest.manifest_path
            for manifest in snapshot.manifests(table.io)
            if with_older or manifest.added_snapshot_id == snapshot.snapshot_id
        ]
    folder = folder_at(table.location(), "table")
    sync(folder, [name for path in paths if (name := name_in(folder, path)) is not None])


def _scrubbed(text: str, uri: str) -> str:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        password = make_url(uri).password
    except ArgumentError:
        password = uri
    return text.replace(str(password), "***") if password else text
