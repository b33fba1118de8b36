"""Compaction and vacuum of a lake's tables while a pipeline writes to them."""

from __future__ import annotations

import logging

from pgsluice.errors import SluiceError, one_line
from pgsluice.lake.current_tables import Tables
from pgsluice.lake.jobs import compact, show, vacuum
from pgsluice.lake.tables import exists, places_in

_log = logging.getLogger(__name__)
# Larger files are not rewritten again.
TARGET_MB = 32
SMALL_FILES_MIN = 8


def maintain(current: Tables, *, retention_h: float) -> None:
    """Compact tables with many small files, and remove files that no version within the retention needs.

    A table whose maintenance fails, as after a conflict with a concurrent commit, is left to the next run.

    Args:
        current: The current-state tables of a lake; its events and rejects are maintained too.
        retention_h: Minimum age of the removed files in hours, 1 or more.
    """
    try:
        places = places_in(current)
    except SluiceError as error:
        _log.warning("lake not maintained", extra={"lake": str(current), "error": str(error)})
        return
    for place in places:
        try:
            if not exists(place):
                continue
            if show(str(place), history=1).small_files >= SMALL_FILES_MIN:
                done = compact(str(place), target_mb=TARGET_MB)
                facts = {"table": str(place), "files_removed": done.files_removed}
                _log.info("lake table compacted", extra=facts)
            vacuum(str(place), retention_hours=retention_h)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a table that cannot be read must not stop the others
            _log.warning(
                "lake table not maintained",
                extra={"table": str(place), "error": one_line(f"{type(error).__name__}: {error}")},
            )
