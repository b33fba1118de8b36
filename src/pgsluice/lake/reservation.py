"""Take files away from a table's folder without ever taking one that a commit is about to name.

A committer makes its files young, which fails if one is gone, and then commits. This side moves a file aside
first, then looks whether it is young or named by now, and if so moves it back. Whichever of the two comes
first, a commit never names a file that is removed:

    moved aside, then made young    the committer finds no file and does not commit
    made young, then moved aside    it is young, and moved back

A vacuum that is killed in between leaves files aside; the next one decides about them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from pgsluice.errors import SluiceError
from pgsluice.lake.files import LakeFile

ASIDE = "_vacuum"


def claim(folder: Path, files: Iterable[LakeFile]) -> None:
    """Make files young just before the commit that names them.

    Raises:
        SluiceError: One is gone. A commit that names it would leave a hole in the table.
    """
    for file in files:
        try:
            os.utime(folder / file.path)
        except FileNotFoundError:
            raise SluiceError(
                f"the file {file.path} was taken away from {folder} before its commit, as a vacuum with a "
                "retention shorter than the write does; run the write again"
            ) from None


def old_files(folder: Path, names: Iterable[str], *, age_s: float) -> list[str]:
    """Of the names, those of files that nobody touched for so long, sorted."""
    before = time.time() - age_s
    return sorted(name for name in names if _is_older(folder / name, before))


def take_away(
    folder: Path, names: Iterable[str], *, age_s: float, named: Callable[[], Collection[str]]
) -> tuple[list[str], int]:
    """Remove files that are old and that no commit names.

    Args:
        folder: The table's.
        names: Relative to it; others' leftovers aside are decided about as well.
        age_s: Younger files stay.
        named: Asks the table, after the files were moved aside, which of them it holds.

    Returns:
        The names that were removed, sorted, and their size in bytes.
    """
    before = time.time() - age_s
    aside = folder / ASIDE
    for name in names:
        if _is_older(folder / name, before):
            _move(folder / name, aside / name)
    moved = [str(path.relative_to(aside)) for path in aside.rglob("*") if path.is_file()]
    in_table = named() if moved else ()
    removed, size_bytes = [], 0
    for name in sorted(moved):
        if name in in_table or not _is_older(aside / name, before):
            _move(aside / name, folder / name)
        else:
            size_bytes += (aside / name).stat().st_size
            (aside / name).unlink()
            removed.append(name)
    _remove_empty(aside)
    return removed, size_bytes


def _is_older(path: Path, before: float) -> bool:
    try:
        return path.stat().st_mtime < before
    except FileNotFoundError:
        return False


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


def _remove_empty(aside: Path) -> None:
    for folder, _, _ in os.walk(aside, topdown=False):
        Path(folder).rmdir()
