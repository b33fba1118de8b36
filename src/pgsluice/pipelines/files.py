"""Files as records of JSON, one after the other: JSON lines, CSV and Parquet, in bounded memory.

What cannot be read as JSON becomes a record too, with the reason: whoever reads decides what becomes of it.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, cast
from uuid import UUID

from pgsluice.errors import ConfigurationError, MissingExtraError

# PostgreSQL takes no longer text into jsonb; and a file without line ends must not fill the memory.
LINE_BYTES_MAX = 256 << 20
_PARQUET_ROWS = 1000
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        number: The line it begins on, or in Parquet the row; the first is 1, and each is above the one before.
        text: It, as JSON; what it was in the file, when there is an error.
        error: Why it is no JSON, or None.
    """

    number: int
    text: str
    error: str | None = None

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return len(self.text)


Read = Callable[[Path], Iterator[Record]]


def reader_of(path: Path) -> Read | None:
    """What reads this file, by the end of its name; None where that says nothing."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix in _JSON_LINES:
        return _json_lines
    if plain.suffix == ".csv":
        return _csv
    return _parquet if path.suffix == ".parquet" else None


def find(places: Sequence[str | Path]) -> list[Path]:
    """The files in these places, each once, by path.

    Args:
        places: Files, folders of files whose names end in what can be read, and patterns such as `in/*.jsonl`.

    Raises:
        ConfigurationError: One is not there, or is a file of another kind.
    """
    found: set[Path] = set()
    for place in places:
        if "://" in str(place):
            raise ConfigurationError(f"{str(place)!r} is no file; copy it here first")
        path = Path(place).expanduser().absolute()
        if path.is_dir():
            found.update(one for one in path.iterdir() if one.is_file() and reader_of(one))
        elif path.is_file():
            if reader_of(path) is None:
                raise ConfigurationError(
                    f"{path} is none of .jsonl, .ndjson, .csv, each also with .gz, and .parquet; name it by "
                    "what it holds"
                )
            found.add(path)
        elif any(sign in path.name for sign in "*?["):
            found.update(
                one for one in path.parent.glob(path.name) if one.is_file() and reader_of(one)
            )
        else:
            raise ConfigurationError(f"there is no file {path}; check the path")
    return sorted(found)


def read(path: Path) -> Iterator[Record]:
    """The records of a file, from the first on.

    Raises:
        ConfigurationError: It cannot be read, or breaks off; it is named. What came before was good.
    """
    reader = reader_of(path)
    if reader is None:
        raise ConfigurationError(f"{path} is of no kind that can be read")
    try:
        with closing(cast("Any", reader(path))) as records:
            yield from records
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigurationError(
            f"{path} cannot be read to its end: {error}; put a whole file in its place"
        ) from error


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _lines(file: IO[bytes]) -> Iterator[tuple[int, str, str | None]]:
    """Number, text and what is wrong with it, line by line; without the mark that Windows begins a file with."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        wrong = None
        if len(line) > LINE_BYTES_MAX:
            wrong = f"longer than {LINE_BYTES_MAX >> 20} MiB; only its beginning is here"
            beginning = line[:1024]
            while line and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES_MAX)
            line = beginning
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            text = line.decode("utf-8", "backslashreplace")
            wrong = wrong or f"no UTF-8: byte {error.start + 1} is 0x{line[error.start]:02x}"
        yield number, text, wrong


def _json_lines(path: Path) -> Iterator[Record]:
    with _open(path) as file:
        for number, line, wrong in _lines(file):
            text = line.strip(" \t\r\n")
            if text:
                yield Record(number, text, wrong or _what_is_wrong(text))


def _what_is_wrong(text: str) -> str | None:
    try:
        _DECODER.decode(text)
    except RecursionError:
        return "no JSON: nested too deeply"
    except ValueError as error:  # also of a number with too many digits
        return f"no JSON: {error}"
    return None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


# json.loads would make one for each line, which costs as much as the line.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _csv(path: Path) -> Iterator[Record]:
    """Each row as an object of texts by the names in the first row."""
    csv.field_size_limit(LINE_BYTES_MAX)  # Python's own is 128 KiB, for all of the process
    with _open(path) as file:
        taken: list[str] = []  # the lines of this row, as it may have several
        wrongs: list[str] = []

        def lines() -> Iterator[str]:
            for _, line, wrong in _lines(file):
                taken.append(line)
                if wrong:
                    wrongs.append(wrong)
                yield line

        rows = csv.reader(lines(), strict=True)
        names: list[str] | None = None
        number = 1
        while True:
            fields, wrong = _next_row(rows)
            if fields is None and wrong is None:
                return
            raw, begins = "".join(taken), number
            number += len(taken)
            wrong = wrongs[0] if wrongs else wrong
            taken.clear()
            wrongs.clear()
            if names is None:
                names = _names(fields, wrong, path)
            elif wrong is not None or fields:
                wrong = wrong or _misfit(fields or [], names)
                row = (
                    raw.rstrip("\r\n")
                    if wrong
                    else _dumps(dict(zip(names, fields or (), strict=True)))
                )
                yield Record(begins, row, wrong)


def _next_row(rows: Iterator[list[str]]) -> tuple[list[str] | None, str | None]:
    """The next row, or why it is none; two None at the end."""
    try:
        return next(rows), None
    except StopIteration:
        return None, None
    except csv.Error as error:
        return None, f"no CSV: {error}"


def _names(fields: list[str] | None, wrong: str | None, path: Path) -> list[str]:
    if not fields or wrong:
        raise ConfigurationError(
            f"{path} has no names in its first row: {wrong or 'it is blank'}; put them there"
        )
    if len(set(fields)) < len(fields):
        raise ConfigurationError(f"{path} names a column twice in its first row; rename one")
    return fields


def _misfit(fields: list[str], names: list[str]) -> str | None:
    if len(fields) == len(names):
        return None
    return f"{len(fields)} fields, not {len(names)} as the first row has"


def _parquet(path: Path) -> Iterator[Record]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "Parquet needs the Python package pyarrow; `pip install 'pgsluice[spark]'`"
        ) from None
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield _row(number, row)
    except (pa.ArrowException, ValueError) as error:  # a time with nanoseconds is a ValueError
        raise ConfigurationError(
            f"{path} cannot be read after row {number}: {error}; put a whole file in its place"
        ) from error


def _row(number: int, row: dict[str, Any]) -> Record:
    try:
        return Record(number, _dumps(row, allow_nan=False))
    except ValueError as error:
        return Record(number, _dumps(row), f"no JSON: {error}")


def _dumps(row: dict[str, Any], *, allow_nan: bool = True) -> str:
    return json.dumps(
        row, default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=allow_nan
    )


def _plain(value: Any) -> Any:
    """What JSON has no form for, as text; numbers that a float cannot hold among it."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return base64.b64encode(value).decode("ascii")  # bytes: nothing else is left
