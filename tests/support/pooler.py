"""PgBouncer in front of a server; the test is skipped if it is not installed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.pooler import pooled

from pgsluice.errors import ConfigurationError


@contextlib.contextmanager
def pooling(url: str, folder: Path, **options: Any) -> Iterator[str]:
    """Run PgBouncer in front of a server as `pooled` does; yield its connection string."""
    with contextlib.ExitStack() as stack:
        try:
            pooled_url = stack.enter_context(pooled(url, folder, **options))
        except ConfigurationError as error:
            if "not installed" not in str(error):
                raise
            pytest.skip(str(error))
        yield pooled_url
