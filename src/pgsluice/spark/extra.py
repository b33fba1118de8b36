"""The packages of the extra `spark`."""

from __future__ import annotations

import importlib.util

from pgsluice.errors import MissingExtraError

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql", "deltalake")


def require_extra() -> None:
    """Raise MissingExtraError when a package of the extra `spark` is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"pipelines need the Python package{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            "`pip install 'pgsluice[spark]'`"
        )
