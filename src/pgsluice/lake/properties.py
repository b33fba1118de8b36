"""Properties of lake tables: names and values that are kept with a table when it is moved or copied."""

from __future__ import annotations

from collections.abc import Mapping

from pgsluice.errors import StoreError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.delta.opening import Use, is_delta, open_delta
from pgsluice.lake.storage import Folder, retry_unanswered


def property_of(lake: Folder | IcebergAddress, name: str) -> str | None:
    """Return a property of a table; None if it is not set, or the table does not exist."""
    if isinstance(lake, IcebergAddress):
        from pgsluice.lake.iceberg.catalog import load_table, opened_catalog

        with opened_catalog(lake.catalog) as catalog:
            table = load_table(catalog, lake)
            return None if table is None else table.properties.get(name)
    if not is_delta(lake):
        return None
    properties: Mapping[str, str] = open_delta(lake, Use.READ).metadata().configuration
    return properties.get(name)


def set_property(lake: Folder | IcebergAddress, name: str, value: str) -> None:
    """Set a property of an existing table, in one commit; do nothing if it has this value.

    Raises:
        StoreError: Commits conflicted; nothing was set.
    """
    if isinstance(lake, IcebergAddress):
        if property_of(lake, name) == value:
            return
        from pgsluice.lake.iceberg.catalog import retry_conflicts

        retry_conflicts(lambda: _set_iceberg(lake, name, value), lake)
        return
    from deltalake.exceptions import CommitFailedError

    from pgsluice.lake.delta.commits import commit_durably

    def attempt() -> None:
        if property_of(lake, name) == value:
            return
        table = open_delta(lake, Use.APPEND)
        with commit_durably(table, lake):
            table.alter.set_table_properties({name: value}, raise_if_not_exists=False)

    try:
        retry_unanswered(lake, attempt)
    except CommitFailedError as error:
        raise StoreError(
            f"the lake table in {lake} refused the property {name}: {error}; run it again"
        ) from error


def _set_iceberg(lake: IcebergAddress, name: str, value: str) -> None:
    from pgsluice.lake.iceberg.catalog import opened_catalog, sync_newest

    with opened_catalog(lake.catalog) as catalog:
        table = catalog.load_table(lake.identifier)
        with table.transaction() as transaction:
            transaction.set_properties({name: value})
        sync_newest(table)
