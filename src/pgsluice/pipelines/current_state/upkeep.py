"""Compaction and vacuum of a lake's tables while a pipeline writes to them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pgsluice.errors import SluiceError
from pgsluice.lake.jobs import compact, show, vacuum
from pgsluice.lake.tables import Place, exists

_log = logging.getLogger(__name__)
# Larger files are not rewritten again.
TARGET_MB = 32
SMALL_FILES_MIN = 8


def maintain(places: Iterable[Place], *, retention_h: float) -> None:
    """Compact tables with many small files, and remove files that no version within the retention needs.

    A table whose maintenance fails, as after a conflict with a concurrent commit, is left to the next run.

    Args:
        places: Addresses; those without a table are skipped.
        retention_h: Minimum age of the removed files in hours, 1 or more.
    """
    for place in filter(exists, places):
        try:
            if show(str(place), history=1).small_files >= SMALL_FILES_MIN:
                done = compact(str(place), target_mb=TARGET_MB)
                facts = {"table": str(place), "files_removed": done.files_removed}
                _log.info("lake table compacted", extra=facts)
            vacuum(str(place), retention_hours=retention_h)
        except SluiceError as error:
            _log.warning(
                "lake table not maintained", extra={"table": str(place), "error": str(error)}
            )
