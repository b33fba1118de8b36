"""Files as streams of JSON records, in bounded memory: JSON lines, CSV and Parquet.

A row that is not valid JSON becomes a record with an error; the caller decides what to do with it.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from uuid import UUID

from pgsluice.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

# PostgreSQL's limit for jsonb text; it also bounds the memory for a file without line breaks.
LINE_BYTES_MAX = 256 << 20
_PARQUET_ROWS = 1000
# Raised for a time with nanoseconds, one outside of the years 1 to 9999, and text that is not UTF-8.
_NO_VALUE = (ValueError, OverflowError)
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        number: The number of its first line, or of the row in Parquet; starts at 1 and ascends.
        text: The row as JSON; as it was in the file if there is an error.
        error: Reason why it is not JSON, or None.
    """

    number: int
    text: str
    error: str | None = None

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        return len(self.text)


Read = Callable[[Path], Iterator[Record]]


def reader_of(path: Path) -> Read | None:
    """Return the reader of a file by the end of its name; None if unknown."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix in _JSON_LINES:
        return _json_lines
    if plain.suffix == ".csv":
        return _csv
    return _parquet if path.suffix == ".parquet" else None


def find(places: Sequence[str | Path]) -> list[Path]:
    """Return the files in these places, without duplicates, sorted by path.

    Args:
        places: Files, folders of files with a known ending, and patterns such as `in/*.jsonl`.

    Raises:
        ConfigurationError: A file does not exist, or has an unknown ending.
    """
    found: set[Path] = set()
    for place in places:
        if "://" in str(place):
            raise ConfigurationError(
                f"{str(place)!r} is a URL; copy the file to a local folder first"
            )
        path = Path(place).expanduser().absolute()
        if path.is_dir():
            found.update(one for one in path.iterdir() if one.is_file() and reader_of(one))
        elif path.is_file():
            if reader_of(path) is None:
                raise ConfigurationError(
                    f"{path} ends in none of .jsonl, .ndjson, .csv, each also with .gz, and .parquet; rename it by "
                    "its contents"
                )
            found.add(path)
        elif any(sign in path.name for sign in "*?["):
            found.update(
                one for one in path.parent.glob(path.name) if one.is_file() and reader_of(one)
            )
        else:
            raise ConfigurationError(f"file {path} does not exist; check the path")
    return sorted(found)


def read(path: Path) -> Iterator[Record]:
    """Yield the records of a file.

    Raises:
        ConfigurationError: It cannot be read or is truncated; the message names it. Records before that are valid.
    """
    reader = reader_of(path)
    if reader is None:
        raise ConfigurationError(f"{path} is of an unknown kind; use JSON lines, CSV or Parquet")
    try:
        with closing(cast("Any", reader(path))) as records:
            yield from records
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigurationError(
            f"{path} cannot be read to its end: {error}; replace it with a complete file"
        ) from error


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _lines(file: IO[bytes]) -> Iterator[tuple[int, str, str | None]]:
    """Yield number, text and error of each line; strips the byte order mark."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        wrong = None
        if len(line) > LINE_BYTES_MAX:
            wrong = f"longer than {LINE_BYTES_MAX >> 20} MiB; truncated here"
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
            wrong = wrong or f"invalid UTF-8: byte {error.start + 1} is 0x{line[error.start]:02x}"
        yield number, text, wrong


def _json_lines(path: Path) -> Iterator[Record]:
    with _open(path) as file:
        for number, line, wrong in _lines(file):
            text = line.strip(" \t\r\n")
            if text:
                yield Record(number, text, wrong or _problem(text))


def _problem(text: str) -> str | None:
    try:
        _DECODER.decode(text)
    except RecursionError:
        return "invalid JSON: nested too deeply"
    except ValueError as error:  # includes numbers with too many digits
        return f"invalid JSON: {error}"
    return None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


# json.loads would create one per line, which costs as much as the line.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _csv(path: Path) -> Iterator[Record]:
    """Yield each row as an object of strings by the column names of the first row."""
    csv.field_size_limit(LINE_BYTES_MAX)  # the default is 128 KiB; applies to the whole process
    with _open(path) as file:
        taken: list[str] = []  # the lines of the current row, which may span several
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
    """Return the next row, or the error in it; two None at the end."""
    try:
        return next(rows), None
    except StopIteration:
        return None, None
    except csv.Error as error:
        return None, f"invalid CSV: {error}"


def _names(fields: list[str] | None, wrong: str | None, path: Path) -> list[str]:
    if not fields or wrong:
        raise ConfigurationError(
            f"{path} has no column names in its first row: {wrong or 'it is blank'}; add them"
        )
    if len(set(fields)) < len(fields):
        raise ConfigurationError(f"{path} names a column twice in its first row; rename one")
    return fields


def _misfit(fields: list[str], names: list[str]) -> str | None:
    if len(fields) == len(names):
        return None
    return f"{len(fields)} fields instead of the {len(names)} of the first row"


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
        # The oldest type of timestamps counts nanoseconds, in which years after 2262 overflow.
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                for row in _rows(batch):
                    number += 1
                    yield (
                        _row(number, row) if isinstance(row, dict) else replace(row, number=number)
                    )
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"{path} cannot be read after row {number}: {error}; replace it with a complete file"
        ) from error


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | Record]:
    """Yield the rows of a batch; those with a value that Python lacks as rejects, with the number 0."""
    try:
        yield from batch.to_pylist()
    except _NO_VALUE as error:
        if _is_of_file(error):
            raise
        for at in range(batch.num_rows):
            yield _row_of(batch.slice(at, 1))


def _row_of(batch: pa.RecordBatch) -> dict[str, Any] | Record:
    row, wrong = {}, []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            (row[name],) = column.to_pylist()
        except _NO_VALUE as error:
            if _is_of_file(error):
                raise
            row[name] = _shown(column)
            wrong.append(f"column {name!r} of type {column.type} holds {row[name]}: {error}")
    return Record(0, _dumps(row), "; ".join(wrong)) if wrong else row


def _is_of_file(error: Exception) -> bool:
    """True for an error that all values of a column have, such as an unknown time zone."""
    import pyarrow as pa

    return isinstance(error, pa.ArrowException)


def _shown(column: pa.Array) -> str:
    """Return the only value of a column as text."""
    import pyarrow as pa

    try:
        return str(column.cast(pa.string())[0].as_py())
    except (pa.ArrowException, ValueError):  # nested, or invalid UTF-8
        return " ".join(column.to_string().split())


def _row(number: int, row: dict[str, Any]) -> Record:
    try:
        return Record(number, _dumps(row, allow_nan=False))
    except ValueError as error:
        return Record(number, _dumps(row), f"invalid JSON: {error}")


def _dumps(row: dict[str, Any], *, allow_nan: bool = True) -> str:
    return json.dumps(
        row, default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=allow_nan
    )


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks as text, including numbers that a float cannot hold."""
    if isinstance(value, datetime | date | time):
        return (
            value.isoformat()
        )  # with nanoseconds if pandas is installed, which has its own type for them
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return base64.b64encode(value).decode("ascii")  # only bytes remain
