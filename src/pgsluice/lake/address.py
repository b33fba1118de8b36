"""Lake table addresses: `/lake/events` or `s3://bucket/events`, the folder of a Delta table, or
`iceberg:catalogue/namespace.table`. A lake of several tables is a folder or a namespace, `iceberg:catalogue/namespace`.

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

    @property
    def namespace(self) -> IcebergNamespace:
        """The namespace of the table."""
        return IcebergNamespace(self.catalog, self.identifier.rpartition(".")[0])


@dataclass(frozen=True, slots=True)
class IcebergNamespace:
    """Address of a namespace, which holds the tables of a lake.

    Attributes:
        catalog: The catalogue's name in pyiceberg's configuration.
        name: Its name, of one or more parts.
    """

    catalog: str
    name: str

    def __str__(self) -> str:
        return f"{_ICEBERG}{self.catalog}/{self.name}"

    def __truediv__(self, table: str) -> IcebergAddress:
        return IcebergAddress(self.catalog, f"{self.name}.{table}")


def parse_lake(lake: str | Path) -> Folder | IcebergNamespace:
    """Parse the address of a lake of several tables.

    Raises:
        ConfigurationError: It is neither the path of a folder nor the address of a namespace.
    """
    text = str(lake)
    if not text.startswith(_ICEBERG):
        return folder_at(text)
    catalog, _, name = text.removeprefix(_ICEBERG).partition("/")
    if not catalog or not all(name.split(".")) or "/" in name:
        raise ConfigurationError(
            f"invalid Iceberg address {text!r}; write iceberg:catalogue/namespace, as this lake has several tables"
        )
    return IcebergNamespace(catalog, name)


def parse(lake: str | Folder | IcebergAddress) -> Folder | IcebergAddress:
    """Parse an address into a folder or an Iceberg address; return one that is parsed.

    Raises:
        ConfigurationError: The address is neither the path of a folder nor an Iceberg address.
    """
    if isinstance(lake, IcebergAddress):
        return lake
    text = str(lake)
    if text.startswith(_ICEBERG):
        catalog, _, identifier = text.removeprefix(_ICEBERG).partition("/")
        parts = identifier.split(".")
        if not catalog or len(parts) < 2 or not all(parts) or "/" in identifier:
            raise ConfigurationError(
                f"invalid Iceberg address {text!r}; write iceberg:catalogue/namespace.table"
            )
        return IcebergAddress(catalog, identifier)
    return folder_at(lake)
