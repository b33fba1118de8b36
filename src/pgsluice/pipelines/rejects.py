"""Rows of a file that no queue takes, kept beside it: none is lost, and none is kept twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pgsluice.errors import ConfigurationError

SUFFIX = ".rejects"


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that was not added.

    Attributes:
        file: Where it was.
        line: The line it begins on, or in Parquet the row.
        error: Why.
        text: It, as it was.
    """

    file: str
    line: int
    error: str
    text: str


class Rejects:
    """The rejects of one file, as JSON lines in a file of their own; there is none while there are none."""

    def __init__(self, source: Path, folder: Path | None) -> None:
        """Say where they are.

        Args:
            source: The file they come from.
            folder: Where to keep them; beside the source when None.
        """
        self.path = (folder or source.parent) / f"{source.name}{SUFFIX}"
        self._source = str(source)
        self._line: int | None = None

    def add(self, rejects: Sequence[Reject], *, after: int, up_to: int) -> None:
        """Force rejects to disk.

        Args:
            rejects: All of the source between those two lines.
            after: How far it is done for certain. What stands here of later lines was written by a run that
                ended before its rows were there: it comes again, and is taken out.
            up_to: How far it will be done now.

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
                f"rejected rows cannot be kept in {self.path}: {error.strerror}; say with rejects in which "
                "folder they can"
            ) from error
        self._line = up_to

    def _write(self, rejects: Sequence[Reject]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            for reject in rejects:
                file.write(json.dumps(asdict(reject), ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _forget_after(self, line: int) -> None:
        if not self.path.exists():
            return
        beside = self.path.with_name(f"{self.path.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            file.writelines(self._kept(line))
            file.flush()
            os.fsync(file.fileno())
        if beside.stat().st_size == 0:
            beside.unlink()
            self.path.unlink()
        else:
            beside.replace(self.path)

    def _kept(self, line: int) -> Iterator[str]:
        with self.path.open(encoding="utf-8") as file:
            for text in file:
                if not text.endswith("\n"):
                    return  # the process died in the middle of it
                entry = json.loads(text)
                # Files of one name in several folders may share this one.
                if entry["file"] != self._source or entry["line"] <= line:
                    yield text
