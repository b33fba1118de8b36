"""Where a table of the lake is: `/lake/events`, a Delta table's folder, or `iceberg:catalogue/namespace.table`.

The catalogue is one that pyiceberg is configured with, by `.pyiceberg.yaml` or by environment variables, so
that its URL, which may hold a password, is nowhere in Spark's options:

    PYICEBERG_CATALOG__LAKE__URI=postgresql+psycopg://user:password@host/database
    PYICEBERG_CATALOG__LAKE__WAREHOUSE=/lake
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgsluice.errors import ConfigurationError

_ICEBERG = "iceberg:"


@dataclass(frozen=True, slots=True)
class IcebergAddress:
    """An Iceberg table's place.

    Attributes:
        catalog: The catalogue's name in pyiceberg's configuration.
        identifier: `namespace.table`; a namespace may have several parts.
    """

    catalog: str
    identifier: str

    def __str__(self) -> str:
        return f"{_ICEBERG}{self.catalog}/{self.identifier}"


def parse(lake: str | Path) -> Path | IcebergAddress:
    """What an address names.

    Raises:
        ConfigurationError: It is neither a folder's path nor an Iceberg table's address.
    """
    text = str(lake)
    if not text.strip():
        raise ConfigurationError("the lake is empty; give a folder's path or an Iceberg table")
    if text.startswith(_ICEBERG):
        catalog, _, identifier = text.removeprefix(_ICEBERG).partition("/")
        parts = identifier.split(".")
        if not catalog or len(parts) < 2 or not all(parts) or "/" in identifier:
            raise ConfigurationError(
                f"the lake {text!r} is no Iceberg table; write iceberg:catalogue/namespace.table"
            )
        return IcebergAddress(catalog, identifier)
    local = text.removeprefix("file://")
    if "://" in local:
        raise ConfigurationError(
            f"the lake {text!r} is not a folder; give a path that Spark's driver and executors share"
        )
    return Path(local).expanduser().absolute()
