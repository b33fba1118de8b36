"""Optional packages, installed by extras."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from pgsluice.errors import MissingExtraError


def require_packages(what: str, names: Sequence[str], extra: str) -> None:
    """Raise MissingExtraError if a package is not installed.

    Args:
        what: Start of the message: `pipelines need`.
        names: Import names of the packages.
        extra: The extra that installs them.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"{what} the Python package{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            f"`pip install 'pgsluice[{extra}]'`"
        )
