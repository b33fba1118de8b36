"""The current state of a table in the lake: a Delta table with one row for each of its rows, and its own columns.

Beside the table's columns each row has `_seq`, the id of the event that brought it; `_changed_at`, the time of that
event; and `_deleted`. A row that was deleted stays for a while, its key alone, and says so: an older change that
comes after that cannot bring it back. So whoever reads the table takes the rows that are not `_deleted`; `live`
does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.delta.commits import commit_once, is_committed
from pgsluice.lake.delta.files import paths_of
from pgsluice.lake.delta.opening import Use, is_delta, open_delta, require_delta
from pgsluice.pipelines.current_state.collapse import NEVER, Last, another_key, row_hash
from pgsluice.pipelines.current_state.columns import TIMESTAMP, array_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEQ, CHANGED_AT, DELETED = "_seq", "_changed_at", "_deleted"
ROW = "_row"  # what tells rows of a table without a key from others: row_hash
BUCKET = "_bucket"
_OWN = {SEQ: pa.int64(), CHANGED_AT: TIMESTAMP, DELETED: pa.bool_()}
_KEY_PROPERTY, _BUCKETS_PROPERTY = "pgsluice.key", "pgsluice.buckets"
# The line below which everything is gone is kept as the version of an application of this name: it is in the commit
# that draws it, and nobody can overlook it.
_EMPTIED = "pgsluice:emptied"


@dataclass(frozen=True)
class CurrentTable:
    """One table's current state.

    Attributes:
        name: `schema.table`, as in PostgreSQL.
        folder: Where it is.
        delta: The Delta table, at some version.
        key: The columns of its key; empty when it has none.
        bucket_count: Into how many parts its rows are divided by their keys; 0 when they are not.
    """

    name: str
    folder: Path
    delta: DeltaTable
    key: tuple[str, ...]
    bucket_count: int

    @classmethod
    def open(cls, lake: Path, name: str) -> CurrentTable | None:
        """The table of this name in a lake; None when it is not there, or was made and never changed."""
        folder = table_folder(lake, name)
        if not is_delta(folder):
            return None
        delta = open_delta(folder, Use.MERGE)
        # Its first changes may not have fitted its columns: they are decided anew.
        if any(commit["operation"].startswith("CREATE") for commit in delta.history(1)):
            return None
        kept = delta.metadata().configuration
        if not {_KEY_PROPERTY, _BUCKETS_PROPERTY} <= kept.keys():
            raise ConfigurationError(
                f"the lake table in {folder} is no current state of {name}; use another lake"
            )
        key, bucket_count = tuple(json.loads(kept[_KEY_PROPERTY])), int(kept[_BUCKETS_PROPERTY])
        if bucket_count:
            require_delta(delta, folder, Use.REPLACE)
        return cls(name, folder, delta, key, bucket_count)

    @classmethod
    def create(
        cls,
        lake: Path,
        name: str,
        key: tuple[str, ...],
        kinds: Mapping[str, pa.DataType],
        *,
        bucket_count: int = 0,
    ) -> CurrentTable:
        """Make the table.

        Args:
            lake: The folder of all current states.
            name: `schema.table`.
            key: The columns of its key; empty when it has none.
            kinds: Its columns and their types.
            bucket_count: 2 or more to divide it by its key; 0 not to.

        Raises:
            ConfigurationError: It has columns that the lake cannot tell apart or keep, or no key to divide by.
        """
        _require_names(name, kinds)
        if bucket_count and not key:
            raise ConfigurationError(
                f"{name} has no key to divide it into buckets by; leave it out of buckets"
            )
        columns = {**kinds, **_OWN}
        if not key:
            columns[ROW] = pa.string()
        if bucket_count:
            columns[BUCKET] = pa.int32()
        folder = table_folder(lake, name)
        delta = DeltaTable.create(
            str(folder),
            DeltaSchema.from_arrow(pa.schema(list(columns.items()))),
            mode="overwrite",
            partition_by=[BUCKET] if bucket_count else None,
            name=name,
            configuration={
                _KEY_PROPERTY: json.dumps(list(key)),
                _BUCKETS_PROPERTY: str(bucket_count),
            },
            raise_if_key_not_exists=False,
        )
        return cls(name, folder, delta, key, bucket_count)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its files, in order."""
        schema = pa.schema(self.delta.schema().to_arrow())
        return pa.schema([(field.name, field.type) for field in schema if field.name != BUCKET])

    @property
    def kinds(self) -> dict[str, pa.DataType]:
        """The columns of the table in PostgreSQL and their types here."""
        return {f.name: f.type for f in self.schema if f.name not in (*_OWN, ROW)}

    @property
    def files(self) -> list[str]:
        """Its Parquet files, as paths."""
        return [str(self.folder / path) for path in paths_of(self.delta)]

    @property
    def emptied_at(self) -> int:
        """Everything with a lower seq is gone; `NEVER` for nothing."""
        version = self.delta.transaction_version(_EMPTIED)
        return NEVER if version is None else version

    def has_applied(self, app_id: str, version: int) -> bool:
        """Whether this version of an application's commits, or a later one, is in the table."""
        return is_committed(self.delta, app_id, version)

    def commit_once(
        self, commit: Callable[[CurrentTable], None], *, app_id: str, version: int
    ) -> CurrentTable | None:
        """Commit a version of an app once; see `pgsluice.lake.delta.commits.commit_once`.

        Returns:
            The table after the commit; None if this or a later version was committed already.

        Raises:
            SluiceError: Every attempt conflicted with another commit.
        """
        try:
            delta = commit_once(
                self.delta,
                lambda newest: commit(replace(self, delta=newest)),
                reopen=lambda: self.again().delta,
                app_id=app_id,
                version=version,
            )
        except CommitFailedError as error:
            raise SluiceError(
                f"the current state of {self.name} refused a commit: {error}; run the pipeline again"
            ) from error
        return delta and replace(self, delta=delta)

    def require_key(self, key: tuple[str, ...]) -> None:
        """Refuse changes that know rows by something else.

        Raises:
            SluiceError: The key is another one.
        """
        if key != self.key:
            raise another_key(self.name, self.key, key)

    def add_columns(self, kinds: Mapping[str, pa.DataType]) -> None:
        """Add columns; they are null in the rows that are there.

        Raises:
            ConfigurationError: The lake cannot tell them from others, or keep them.
        """
        _require_names(self.name, {**self.kinds, **kinds})
        added = DeltaSchema.from_arrow(pa.schema(list(kinds.items())))
        self.delta.alter.add_columns([Field(f.name, f.type) for f in added.fields])

    def again(self) -> CurrentTable:
        """The same at its newest version."""
        use = Use.REPLACE if self.bucket_count else Use.MERGE
        return replace(self, delta=open_delta(self.folder, use))

    def commit_properties(
        self, app_id: str, version: int, emptied_at: int, *others: Transaction
    ) -> CommitProperties:
        """What marks a commit as this version of an application's, and draws the line if there is one.

        Another commit of the same application that came meanwhile makes this one fail.
        """
        transactions = [Transaction(app_id, version), *others]
        if emptied_at > self.emptied_at:
            transactions.append(Transaction(_EMPTIED, emptied_at))
        return CommitProperties(app_transactions=transactions)


def rows_of(name: str, schema: pa.Schema, lasts: Iterable[Last]) -> pa.Table:
    """Changes as rows of a current state.

    Args:
        name: The table's, to be named in an error.
        schema: Its columns.
        lasts: The last changes of some rows.

    Raises:
        SluiceError: A column's type cannot hold a value.
    """
    lasts = list(lasts)

    def column(field: pa.Field) -> pa.Array:
        if field.name == SEQ:
            return pa.array([last.seq for last in lasts], field.type)
        if field.name == CHANGED_AT:
            return pa.array([last.at_us for last in lasts], field.type)
        if field.name == DELETED:
            return pa.array([last.deleted for last in lasts], field.type)
        if field.name == ROW:
            return pa.array([row_hash(last.row) for last in lasts], field.type)
        values = [last.row.get(field.name) for last in lasts]
        return array_of(values, field.type, f"{name}.{field.name}")

    return pa.table([column(field) for field in schema], schema=schema)


def table_folder(lake: Path, name: str) -> Path:
    """The folder of a table's current state; another one for each name."""
    return lake / re.sub(
        r"[^\w.-]", lambda found: f"~{found[0].encode().hex()}", name, flags=re.ASCII
    )


def names_in(lake: Path) -> list[str]:
    """The names of the tables whose current state is in this lake, in order."""
    folders = sorted(lake.iterdir()) if lake.is_dir() else []
    return [open_delta(folder, Use.READ).metadata().name for folder in folders if is_delta(folder)]


def live(spark: SparkSession, lake: str | Path, name: str) -> DataFrame:
    """The rows that a captured table has, as Spark reads them from the lake.

    Args:
        spark: A session.
        lake: The folder that was given to the pipeline `changes`.
        name: `schema.table`.

    Raises:
        ConfigurationError: There is no such table in the lake.
    """
    from pgsluice.spark.lake_reading import read_table

    rows = read_table(spark, table_folder(Path(lake) / "current", name))
    own = [column for column in rows.columns if column in (*_OWN, ROW, BUCKET)]
    return rows.where(~rows[DELETED]).drop(*own)


def _require_names(table: str, names: Mapping[str, pa.DataType]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name in (*_OWN, ROW, BUCKET):
            raise ConfigurationError(
                f"{table} has a column {name}, which the lake keeps for itself; leave it out of the events"
            )
        if re.search(r"[ ,;{}()\n\t=]", name):
            raise ConfigurationError(
                f"{table} has a column {name!r}, and names in the lake have none of ' ,;{{}}()=' in them; leave it out "
                "of the events, or rename it"
            )
        if seen.setdefault(name.lower(), name) != name:
            raise ConfigurationError(
                f"{table} has the columns {seen[name.lower()]} and {name}, which the lake cannot tell apart; leave one "
                "out of the events"
            )
