"""Packages of the extra `spark`."""

from __future__ import annotations

import importlib.util

from pgsluice.extras import require_packages

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql", "deltalake")


def require_extra() -> None:
    """Raise MissingExtraError if a package of the extra `spark` is not installed."""
    # On a platform with its own Spark, the extra spark would replace it.
    has_spark = importlib.util.find_spec("pyspark") is not None
    require_packages("pipelines need", _NEEDED, "spark-libs" if has_spark else "spark")
