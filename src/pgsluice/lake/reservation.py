"""Remove files from a lake table's folder without a race against concurrent commits.

On disk, a writer touches its files before it commits, which fails if one no longer exists. Vacuum first moves a file
to a quarantine folder, then checks its modification time and whether the table references it by now, and if so moves
it back. Either order is safe, so a commit never references a removed file:

    quarantined, then touched    the writer does not find the file and does not commit
    touched, then quarantined    its modification time is recent, and vacuum moves it back

Files that a killed vacuum left in quarantine are handled by the next one.

An object cannot be touched, and moving it is a copy. There a vacuum removes only files of a day or more, and a writer
commits only files younger than that by an hour, which allows for clocks that differ.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from pgsluice.errors import ConfigurationError, StoreError
from pgsluice.lake.files import LakeFile
from pgsluice.lake.job_results import Vacuum
from pgsluice.lake.storage import Folder, files_in, remove

QUARANTINE = "_vacuum"
OBJECT_RETENTION_HOURS_MIN = 24.0
_COMMIT_AGE_MAX_S = (OBJECT_RETENTION_HOURS_MIN - 1) * 3600


def claim(folder: Folder, files: Iterable[LakeFile]) -> None:
    """Make sure, immediately before the commit that references files, that no vacuum removes them.

    Raises:
        StoreError: A file no longer exists or is too old; committing it could corrupt the table.
    """
    for file in files:
        if isinstance(folder, Path):
            try:
                os.utime(folder / file.path)
            except FileNotFoundError:
                raise StoreError(
                    f"the file {file.path} in {folder} was removed before its commit, for example by a vacuum with a "
                    "retention shorter than the write; run the write again"
                ) from None
        elif time.time() - file.written_s > _COMMIT_AGE_MAX_S:
            raise StoreError(
                f"the file {file.path} in {folder} was written {_hours(time.time() - file.written_s)} hours ago, and a "
                f"vacuum may remove it; write fewer rows at once, in less than {_hours(_COMMIT_AGE_MAX_S)} hours"
            )


def check_retention(folder: Folder, retention_hours: float) -> None:
    """Check that a vacuum cannot remove the files of a write that is not committed yet.

    Raises:
        ConfigurationError: The retention is too short for an object store.
    """
    if not isinstance(folder, Path) and retention_hours < OBJECT_RETENTION_HOURS_MIN:
        raise ConfigurationError(
            f"invalid retention of {retention_hours:g} hours for the object store of {folder}; use "
            f"{OBJECT_RETENTION_HOURS_MIN:g} or more, as writers may commit files of that age"
        )


def old_files(folder: Folder, names: Iterable[str], *, age_s: float) -> dict[str, int]:
    """Return the names of files last modified more than `age_s` seconds ago, sorted, with their sizes in bytes."""
    before, requested = time.time() - age_s, set(names)
    return {
        name: size
        for name, size, modified in sorted(files_in(folder))
        if name in requested and modified < before
    }


def vacuumed(
    folder: Folder,
    names: Iterable[str],
    *,
    age_s: float,
    named: Callable[[], Collection[str]],
    dry_run: bool,
) -> Vacuum:
    """Remove files as `remove_unreferenced` does, or with `dry_run` only list old files."""
    if dry_run:
        found = old_files(folder, names, age_s=age_s)
    else:
        found = remove_unreferenced(folder, names, age_s=age_s, named=named)
    return Vacuum(list(found), sum(found.values()))


def remove_unreferenced(
    folder: Folder, names: Iterable[str], *, age_s: float, named: Callable[[], Collection[str]]
) -> dict[str, int]:
    """Remove old files that the table does not reference, including those an earlier vacuum quarantined.

    Args:
        folder: Folder of the table.
        names: Candidates, relative to the folder.
        age_s: Minimum age of the files to remove, in seconds.
        named: Returns the files that the table references; called after the candidates were chosen.

    Returns:
        The removed names, sorted, with their sizes in bytes.
    """
    if isinstance(folder, Path):
        return _remove_from_disk(folder, names, age_s, named)
    old = old_files(folder, names, age_s=age_s)
    in_table = named() if old else ()
    removed = {name: size for name, size in old.items() if name not in in_table}
    for name in removed:
        remove(folder, name)
    return removed


def _remove_from_disk(
    folder: Path, names: Iterable[str], age_s: float, named: Callable[[], Collection[str]]
) -> dict[str, int]:
    before = time.time() - age_s
    quarantine = folder / QUARANTINE
    for name in names:
        if _is_older(folder / name, before):
            _move(folder / name, quarantine / name)
    moved = [str(path.relative_to(quarantine)) for path in quarantine.rglob("*") if path.is_file()]
    in_table = named() if moved else ()
    removed = {}
    for name in sorted(moved):
        if name in in_table or not _is_older(quarantine / name, before):
            _move(quarantine / name, folder / name)
        else:
            removed[name] = (quarantine / name).stat().st_size
            (quarantine / name).unlink()
    _remove_empty(quarantine)
    return removed


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f}"


def _is_older(path: Path, before: float) -> bool:
    try:
        return path.stat().st_mtime < before
    except FileNotFoundError:
        return False


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


def _remove_empty(quarantine: Path) -> None:
    for folder, _, _ in os.walk(quarantine, topdown=False):
        Path(folder).rmdir()
