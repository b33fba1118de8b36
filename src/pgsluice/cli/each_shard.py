"""Commands that show several databases: read each at the same time, and name those that are down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pgsluice.cli.failures import hint
from pgsluice.cli.main import EXIT_ERROR
from pgsluice.cli.printing import echo
from pgsluice.connection import Target, resolve
from pgsluice.errors import SluiceError
from pgsluice.shards import Shards

Found = TypeVar("Found")

_THREADS_MAX = 16


def of_each(
    shards: Shards, read: Callable[[Target], Found]
) -> list[tuple[str, Found | SluiceError]]:
    """Read from all shards at the same time; an error stands for a shard that is down."""

    def of_one(name: str) -> Found | SluiceError:
        try:
            return read(resolve(shards.dsn(name), start_embedded=False))
        except SluiceError as error:
            return error

    with ThreadPoolExecutor(max_workers=min(len(shards.names), _THREADS_MAX)) as threads:
        return list(zip(shards.names, threads.map(of_one, shards.names), strict=True))


def errors_of(found: list[tuple[str, Any | SluiceError]]) -> list[tuple[str, SluiceError]]:
    """Return the shards that are down, with the reason."""
    return [(name, one) for name, one in found if isinstance(one, SluiceError)]


def exit_if_down(errors: list[tuple[str, SluiceError]]) -> None:
    """Name the shards that are down and exit with 3, if there are any."""
    for name, error in errors:
        echo(f"shard {name} is down: {hint(error)}", err=True)
    if errors:
        sys.exit(EXIT_ERROR)
