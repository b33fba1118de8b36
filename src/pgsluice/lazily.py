"""Import a package's modules on first access to one of their names (PEP 562).

Spark starts a process for each step of a plan, and each command is a process: each uses few of our modules, and
importing all would slow its start.
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

    They come from the imports in its source under `TYPE_CHECKING` that type checkers take as exports:
    `from module import name as name`, and `from package import *`. So each name is listed once. A name that is imported
    from the package itself is a module of it.

    Args:
        package: Its name. Its submodules that it imports from become attributes too.
    """
    space = vars(sys.modules[package])
    origins = dict(_exports(inspect.getsource(sys.modules[package])))

    def find(name: str) -> Any:
        if origins.get(name) == package:
            return import_module(f"{package}.{name}")
        if name in origins:
            space[name] = found = getattr(import_module(origins[name]), name)  # cached
            return found
        if any(f"{origin}.".startswith(f"{package}.{name}.") for origin in origins.values()):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return sorted(origins), find, lambda: sorted({*space, *origins})


def _exports(source: str) -> Iterator[tuple[str, str]]:
    """Yield each exported name with its module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.name == "*":
                    yield from ((name, node.module) for name in import_module(node.module).__all__)
                elif alias.asname == alias.name:
                    yield alias.name, node.module
