"""Import a package's modules when a name of theirs is first asked for, and not with the package.

Spark starts a process for each step of a plan, and the command line one for each command: each needs a few of
our modules, and pays for all that it imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazily(package: str, names: Sequence[str], modules: Sequence[str]) -> Callable[[str], Any]:
    """Make the function `__getattr__` of a package.

    Args:
        package: Its name.
        names: What it gives by name: its `__all__`.
        modules: Where these are, within the package: searched in this order, so the lighter ones first. They are
            attributes of the package as well.
    """

    def find(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name in names:
            for module in modules:
                try:
                    found = getattr(import_module(f"{package}.{module}"), name)
                except AttributeError:
                    continue
                setattr(sys.modules[package], name, found)  # asked for once
                return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
