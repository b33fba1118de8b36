"""Packages of the extra `spark`."""

from __future__ import annotations

from pgsluice.extras import require_packages

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql", "deltalake")


def require_extra() -> None:
    """Raise MissingExtraError if a package of the extra `spark` is not installed."""
    require_packages("pipelines need", _NEEDED, "spark")
