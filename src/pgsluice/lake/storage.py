"""Files of lake tables, in a folder on disk or under a prefix of an object store.

A `Folder` is a `Path` or an `ObjectFolder`. The functions here are the only ones that write, read, list and remove
files of tables; delta-rs and pyiceberg write their own metadata.

Files of Delta tables are accessed with pyarrow and their logs with delta-rs, both configured by the environment of each
process: credentials by variables, profile or machine role, and `AWS_REGION`, `AWS_ENDPOINT_URL`,
`AZURE_STORAGE_ACCOUNT_NAME`, `GOOGLE_APPLICATION_CREDENTIALS` and so on. Files of Iceberg tables are accessed with the
properties of their catalogue. Neither appears in Spark's options or plans.

Not with delta-rs's file system for pyarrow, which is implemented in Python: it holds the interpreter's lock while it
waits, and threads of pyarrow that call it abort the process at its end.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pgsluice.durations import parse_duration
from pgsluice.errors import ConfigurationError, one_line
from pgsluice.lake.disk import sync_file, sync_folder

if TYPE_CHECKING:
    import pyarrow.dataset
    import pyarrow.fs

_log = logging.getLogger(__name__)
# URL schemes of delta-rs; s3a and abfss are the names in Hadoop and Spark.
SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_LOGIN = re.compile(r"[^/@]*:[^/@]*@")
_PROBE = ".pgsluice-probe"
# pyarrow's default of 3 attempts spans less than a second.
_ATTEMPTS = 10
_CALLS_MAX = 3  # each waits for the time-out of a request


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """Prefix of an object store that holds the files of a lake.

    Attributes:
        url: `s3://bucket/prefix`, without a slash at the end.
        catalog: Iceberg catalogue whose properties configure the access; empty for the environment.
    """

    url: str
    catalog: str = ""

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> ObjectFolder:
        return ObjectFolder(f"{self.url}/{name}", self.catalog)

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return posixpath.basename(self.url)

    @property
    def parent(self) -> ObjectFolder:
        """The folder that this one is in."""
        return ObjectFolder(posixpath.dirname(self.url), self.catalog)


Folder = Path | ObjectFolder
Result = TypeVar("Result")


def folder_at(place: str | Folder, what: str = "lake") -> Folder:
    """Parse the path of a folder, a `file://` URL or the URL of an object store.

    Args:
        place: The path or URL.
        what: Its purpose, for the error: `lake`, `gold`.

    Raises:
        ConfigurationError: It is empty, or a URL of another kind, or holds a password.
    """
    if isinstance(place, ObjectFolder):
        return place
    text = str(place).strip()
    if not text:
        raise ConfigurationError(
            f"the {what} is empty; use a folder, or a URL such as s3://bucket/folder"
        )
    local = text.removeprefix("file://")
    if "://" not in local:
        return Path(local).expanduser().absolute()
    parts = urlsplit(text)
    if _LOGIN.match(text.partition("://")[2]):
        raise ConfigurationError(
            f"the URL of the {what} holds a password, which plans and logs would show; set the credentials in the "
            "environment"
        )
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise ConfigurationError(
            f"the {what} {text!r} is neither a folder nor in a supported object store; use a path, or a URL that "
            f"begins with {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
        )
    if not parts.path.strip("/"):
        raise ConfigurationError(
            f"the {what} {text!r} is a whole bucket; use a folder in it, such as {text.rstrip('/')}/lake"
        )
    return ObjectFolder(re.sub("^s3a:", "s3:", text).rstrip("/"))


class NewFile:
    """A file that is being written, under a name that does not exist yet.

    Attributes:
        stream: Binary stream to write to.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self.stream: Any
        if isinstance(folder, Path):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self.stream = path.open("xb")
        else:
            self.stream = filesystem(folder).open_output_stream(name)

    def close(self) -> int:
        """Make the file durable and return its size in bytes."""
        if isinstance(self._folder, Path):
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.stream.close()
            sync(self._folder, [self._name], with_files=False)
            return (self._folder / self._name).stat().st_size
        size: int = self.stream.tell()
        self.stream.close()
        return size

    def discard(self) -> None:
        """Close and remove the file; without an error if that fails, as vacuum removes it later."""
        with suppress(Exception):
            self.stream.close()
        with suppress(Exception):
            remove(self._folder, self._name)


def open_input(folder: Folder, name: str) -> Any:
    """Return a source for `pyarrow.parquet`: a path, or an open file of an object store."""
    return (
        str(folder / name) if isinstance(folder, Path) else filesystem(folder).open_input_file(name)
    )


def open_output(folder: Folder, name: str) -> Any:
    """Open a new file for pyarrow, which need not survive a crash."""
    return filesystem(folder).open_output_stream(name)


def open_path(path: Folder) -> Any:
    """Return a source for pyarrow for a file by its whole path or URL."""
    return open_input(path.parent, path.name)


def read_bytes(folder: Folder, name: str) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: It does not exist.
    """
    if isinstance(folder, Path):
        return (folder / name).read_bytes()
    with filesystem(folder).open_input_stream(name) as file:
        content: bytes = file.read()
    return content


def dataset(
    folder: Folder, names: Iterable[str], schema: pyarrow.Schema
) -> pyarrow.dataset.Dataset:
    """Return Parquet files of a folder as one dataset; columns of the schema that a file lacks are null."""
    from pyarrow import dataset as datasets

    return datasets.dataset(
        list(names), schema=schema, filesystem=filesystem(folder), format="parquet"
    )


def remove(folder: Folder, name: str) -> None:
    """Remove a file, if it exists."""
    if isinstance(folder, Path):
        (folder / name).unlink(missing_ok=True)
    else:
        with suppress(FileNotFoundError):
            filesystem(folder).delete_file(name)


def files_in(folder: Folder) -> Iterator[tuple[str, int, float]]:
    """Yield name, size in bytes and modification time of each file in a folder and those below it.

    Names are relative to the folder; the time is in seconds since 1970, by the clock of the store.
    """
    if isinstance(folder, Path):
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):
                if path.is_file():
                    state = path.stat()
                    yield str(path.relative_to(folder)), state.st_size, state.st_mtime
        return
    from pyarrow.fs import FileSelector, FileType

    selector = FileSelector("", recursive=True, allow_not_found=True)
    for info in filesystem(folder).get_file_info(selector):
        if info.type is FileType.File:
            yield info.path, info.size, info.mtime.timestamp()


def make_folder(folder: Folder) -> None:
    """Create a folder; an object store has none."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)


def remove_folder(folder: Folder) -> None:
    """Remove a folder with all its files, if it exists; without an error if that fails."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with suppress(OSError):
            filesystem(folder.parent).delete_dir_contents(folder.name, missing_dir_ok=True)


def folders_in(folder: Folder) -> list[str]:
    """Return the names of the folders directly in a folder, sorted; empty if it does not exist."""
    if isinstance(folder, Path):
        return (
            sorted(path.name for path in folder.iterdir() if path.is_dir())
            if folder.is_dir()
            else []
        )
    from pyarrow.fs import FileSelector, FileType

    found = filesystem(folder).get_file_info(FileSelector("", allow_not_found=True))
    return sorted(info.base_name for info in found if info.type is FileType.Directory)


def sync(folder: Folder, names: Iterable[str], *, with_files: bool = True) -> None:
    """Make files of a folder durable, and the folders that name them; objects are durable once written.

    Args:
        folder: Folder of a table.
        names: Files relative to it.
        with_files: False if the files themselves are durable already.
    """
    if not isinstance(folder, Path):
        return
    parents = set()
    for name in names:
        if with_files:
            sync_file(folder / name)
        parents |= {folder / parent for parent in Path(name).parents}
    for parent in parents:
        sync_folder(parent)


def write_whole(folder: Folder, name: str, content: bytes) -> None:
    """Write a whole file durably, which replaces one of that name atomically."""
    new = f"{name}.{uuid.uuid4().hex}.new" if isinstance(folder, Path) else name
    file = NewFile(folder, new)
    file.stream.write(content)
    file.close()
    if isinstance(folder, Path):
        (folder / new).replace(folder / name)
        sync(folder, [name], with_files=False)


def retry_unanswered(folder: Folder, act: Callable[[], Result]) -> Result:
    """Call an idempotent function again if a request to the object store failed or was not answered in time.

    delta-rs does not repeat a commit after a time-out, as it does not know if the store has made it.

    Raises:
        OSError: The last attempt failed, or the folder is on a disk.
    """
    for _ in range(_CALLS_MAX - 1 if isinstance(folder, ObjectFolder) else 0):
        try:
            return act()
        except OSError as error:
            facts = {"folder": str(folder), "error": one_line(str(error))}
            _log.warning("request to the object store repeated", extra=facts)
    return act()


def probe(folder: Folder) -> None:
    """Write and remove a small file.

    Raises:
        OSError: The folder is not writable.
    """
    file = NewFile(folder, f"{_PROBE}-{uuid.uuid4()}")
    try:
        file.stream.write(bytes(4096))
        file.close()
    finally:
        file.discard()


@lru_cache(maxsize=64)
def filesystem(folder: Folder) -> pyarrow.fs.FileSystem:
    """Return a pyarrow file system whose root is the folder."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    if isinstance(folder, Path):
        return SubTreeFileSystem(str(folder), LocalFileSystem())
    path, access = _of_catalog(folder) if folder.catalog else _of_environment(folder)
    return SubTreeFileSystem(path, access)


def _of_environment(folder: ObjectFolder) -> tuple[str, pyarrow.fs.FileSystem]:
    from pyarrow.fs import AwsDefaultS3RetryStrategy, AzureFileSystem, FileSystem, S3FileSystem

    parts, given = urlsplit(folder.url), os.environ.get
    path = folder.url.partition("://")[2]
    if parts.scheme == "s3":
        endpoint = (
            given("AWS_ENDPOINT_URL_S3") or given("AWS_ENDPOINT_URL") or given("AWS_ENDPOINT")
        )
        access = S3FileSystem(
            region=given("AWS_REGION") or given("AWS_DEFAULT_REGION"),
            endpoint_override=endpoint,
            retry_strategy=AwsDefaultS3RetryStrategy(max_attempts=_ATTEMPTS),
            request_timeout=_seconds("AWS_TIMEOUT"),
            connect_timeout=_seconds("AWS_CONNECT_TIMEOUT"),
        )
        return path, access
    if parts.scheme in ("az", "abfs", "abfss"):
        container, _, host = parts.netloc.partition("@")
        account = host.partition(".")[0] or given("AZURE_STORAGE_ACCOUNT_NAME") or ""
        access = AzureFileSystem(
            account_name=account,
            account_key=given("AZURE_STORAGE_ACCOUNT_KEY") or given("AZURE_STORAGE_ACCESS_KEY"),
            sas_token=given("AZURE_STORAGE_SAS_TOKEN") or given("AZURE_STORAGE_SAS_KEY"),
            **_azure_endpoint(account, given("AZURE_STORAGE_ENDPOINT") or given("AZURE_ENDPOINT")),
        )
        return f"{container}{parts.path}", access
    access, path = FileSystem.from_uri(folder.url)
    return path, access


def _azure_endpoint(account: str, url: str | None) -> dict[str, str]:
    """Return pyarrow's options for an endpoint other than Azure's own, such as that of an emulator."""
    if not url:
        return {}
    parts = urlsplit(url)
    # pyarrow puts the account before an authority that begins with a dot, and into the path otherwise.
    authority = parts.netloc.removeprefix(account)
    return {
        f"{service}_storage_{option}": value
        for service in ("blob", "dfs")
        for option, value in (("authority", authority), ("scheme", parts.scheme))
    }


def _seconds(name: str) -> float | None:
    """Return a time-out from the environment, in delta-rs's notation; None for the default of pyarrow."""
    given = os.environ.get(name)
    if given is None:
        return None
    seconds = parse_duration(given)
    if seconds is None or given[-1:].isdigit():  # delta-rs, which reads it too, needs the unit
        raise ConfigurationError(f"{name} is {given!r}; use a number of seconds such as 30s")
    return seconds


def _of_catalog(folder: ObjectFolder) -> tuple[str, pyarrow.fs.FileSystem]:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.utils.config import Config

    settings = Config().get_catalog_config(folder.catalog) or {}
    access = PyArrowFileIO({str(key): str(value) for key, value in settings.items()})
    scheme, netloc, path = access.parse_location(folder.url)
    return path, access.fs_by_scheme(scheme, netloc)
