"""Rejected rows of a file, stored next to it without loss or duplicates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pgsluice.errors import ConfigurationError

SUFFIX = ".rejects"


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A rejected row.

    Attributes:
        file: Its file.
        line: The number of its first line, or of the row in Parquet.
        error: Reason.
        text: The row as it was in the file.
    """

    file: str
    line: int
    error: str
    text: str


class Rejects:
    """The rejects of one file, as JSON lines in a file that exists only if there are any."""

    def __init__(self, source: Path, folder: Path | None) -> None:
        """Set the path of the rejects.

        Args:
            source: The file they come from.
            folder: Folder of the rejects; None: that of the source.
        """
        self.path = (folder or source.parent) / f"{source.name}{SUFFIX}"
        self._source = str(source)
        self._line: int | None = None

    def add(self, rejects: Sequence[RejectedRow], *, after: int, up_to: int) -> None:
        """Write rejects to disk durably.

        Args:
            rejects: All rejects of the source between these two lines.
            after: The committed position. Rejects of later lines were written by a run that ended before its commit;
                they are removed, as those lines are read again.
            up_to: The position after this commit.

        Raises:
            ConfigurationError: They cannot be written.
        """
        try:
            if self._line != after:
                self._forget_after(after)
            if rejects:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._write(rejects)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write rejected rows to {self.path}: {error.strerror}; set rejects to a writable "
                "folder"
            ) from error
        self._line = up_to

    def _write(self, rejects: Sequence[RejectedRow]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            for reject in rejects:
                file.write(json.dumps(asdict(reject), ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _forget_after(self, line: int) -> None:
        if not self.path.exists():
            return
        replacement = self.path.with_name(f"{self.path.name}.new")
        with replacement.open("w", encoding="utf-8") as file:
            file.writelines(self._kept(line))
            file.flush()
            os.fsync(file.fileno())
        if replacement.stat().st_size == 0:
            replacement.unlink()
            self.path.unlink()
        else:
            replacement.replace(self.path)

    def _kept(self, line: int) -> Iterator[str]:
        with self.path.open(encoding="utf-8") as file:
            for text in file:
                if not text.endswith("\n"):
                    return  # truncated, as the process died while writing
                entry = json.loads(text)
                # Files with the same name in several folders may share this one.
                if entry["file"] != self._source or entry["line"] <= line:
                    yield text
