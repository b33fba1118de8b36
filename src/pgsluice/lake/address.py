"""Lake table addresses: `/lake/events` or `s3://bucket/events`, the folder of a Delta table, or
`iceberg:catalogue/namespace.table`.

Configure the catalogue for pyiceberg, with `.pyiceberg.yaml` or environment variables. This keeps its URL, which may
contain a password, out of Spark's options:

    PYICEBERG_CATALOG__LAKE__URI=postgresql+psycopg://user:password@host/database
    PYICEBERG_CATALOG__LAKE__WAREHOUSE=/lake
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgsluice.errors import ConfigurationError
from pgsluice.lake.storage import Folder, folder_at

_ICEBERG = "iceberg:"


@dataclass(frozen=True, slots=True)
class IcebergAddress:
    """Address of an Iceberg table.

    Attributes:
        catalog: The catalogue's name in pyiceberg's configuration.
        identifier: `namespace.table`; a namespace may have several parts.
    """

    catalog: str
    identifier: str

    def __str__(self) -> str:
        return f"{_ICEBERG}{self.catalog}/{self.identifier}"


def parse(lake: str | Path) -> Folder | IcebergAddress:
    """Parse an address into a folder or an Iceberg address.

    Raises:
        ConfigurationError: The address is neither the path of a folder nor an Iceberg address.
    """
    text = str(lake)
    if text.startswith(_ICEBERG):
        catalog, _, identifier = text.removeprefix(_ICEBERG).partition("/")
        parts = identifier.split(".")
        if not catalog or len(parts) < 2 or not all(parts) or "/" in identifier:
            raise ConfigurationError(
                f"invalid Iceberg address {text!r}; write iceberg:catalogue/namespace.table"
            )
        return IcebergAddress(catalog, identifier)
    return folder_at(text)
