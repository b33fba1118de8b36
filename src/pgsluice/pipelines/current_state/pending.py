"""Micro-batches whose events are in the lake, and not yet in the current-state tables.

Each has a file in the checkpoint, so a restart continues with them.
"""

from __future__ import annotations

from pathlib import Path

from pgsluice.lake.storage import write_whole
from pgsluice.pipelines.current_state.event_files import Written


def pending_folder(checkpoint: Path) -> Path:
    """Return the folder of the pending micro-batches of a checkpoint."""
    return checkpoint / "unapplied"


class Pending:
    """The pending micro-batches of one stream.

    Args:
        folder: Folder of their files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, batch_id: int, written: Written) -> None:
        """Add a micro-batch; if it exists, replace it."""
        write_whole(self._folder, f"{batch_id}.json", written.to_json().encode())

    def all(self, *, after: int = -1) -> dict[int, Written]:
        """Return the micro-batches with a greater id by id, in order."""
        paths = {int(path.stem): path for path in self._folder.glob("*.json")}
        return {
            batch_id: Written.from_json(path.read_text())
            for batch_id, path in sorted(paths.items())
            if batch_id > after
        }

    def remove(self, up_to: int) -> None:
        """Remove the micro-batches up to an id, which are applied."""
        for path in self._folder.glob("*.json"):
            if int(path.stem) <= up_to:
                path.unlink()
