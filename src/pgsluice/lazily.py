"""Import a package's modules when a name of theirs is first asked for, and not with the package.

Spark starts a process for each step of a plan, and the command line one for each command: each needs a few of
our modules, and pays for all that it imports.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any


def lazily(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    They come from the imports in its source that type checkers take as exports and that are not executed:
    `from module import name as name`, and `from package import *`. So each name is listed once.

    Args:
        package: Its name. The modules beneath it that it imports from are attributes of it as well.
    """
    space = vars(sys.modules[package])
    origins = dict(_exports(inspect.getsource(sys.modules[package])))

    def find(name: str) -> Any:
        if name in origins:
            space[name] = found = getattr(import_module(origins[name]), name)  # asked for once
            return found
        if any(f"{origin}.".startswith(f"{package}.{name}.") for origin in origins.values()):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return sorted(origins), find, lambda: sorted({*space, *origins})


def _exports(source: str) -> Iterator[tuple[str, str]]:
    """Return each exported name with its module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.name == "*":
                    yield from ((name, node.module) for name in import_module(node.module).__all__)
                elif alias.asname == alias.name:
                    yield alias.name, node.module
