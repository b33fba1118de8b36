"""Delta tables whose rows are changed; see `pgsluice.lake.mutable`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from pgsluice.errors import SluiceError, StoreError
from pgsluice.lake.columns import plain
from pgsluice.lake.copy_on_write import filtered, merged, written
from pgsluice.lake.delta.commits import commit_durably, commit_files, commit_once, rewriting
from pgsluice.lake.delta.files import TableFile
from pgsluice.lake.delta.merge import apply
from pgsluice.lake.delta.opening import (
    Use,
    dataset_of,
    is_delta,
    local_path,
    open_delta,
    require_delta,
)
from pgsluice.lake.files import LakeFile
from pgsluice.lake.mutable import Changes, MutableTable, NewTable, RowFile, Rows
from pgsluice.lake.skipping import ranges_of
from pgsluice.lake.stats import has_range
from pgsluice.lake.storage import Folder, retry_unanswered


@dataclass(frozen=True)
class DeltaMutableTable(MutableTable):
    """Delta table at one version.

    Attributes:
        place: Its folder.
        delta: The table.
    """

    place: Folder
    delta: DeltaTable

    @classmethod
    def open(cls, folder: Folder) -> DeltaMutableTable | None:
        """Return the table in a folder; None if it does not exist, or was created and never changed.

        Raises:
            ConfigurationError: It uses a feature not supported for changes.
        """
        if not is_delta(folder):
            return None
        delta = open_delta(folder, Use.MERGE)
        if any(commit["operation"].startswith("CREATE") for commit in delta.history(1)):
            return None
        return cls(folder, require_delta(delta, folder, _use(delta)))

    @classmethod
    def create(cls, folder: Folder, new: NewTable) -> DeltaMutableTable:
        """Create a table without rows, in place of one in this folder."""
        delta = retry_unanswered(
            folder,
            lambda: DeltaTable.create(
                str(folder),
                Schema.from_arrow(new.schema),
                mode="overwrite",
                partition_by=list(new.partition_by) or None,
                name=new.name,
                description=new.description,
                configuration=dict(new.properties),
                raise_if_key_not_exists=False,
            ),
        )
        return cls(folder, delta)

    @property
    def folder(self) -> Folder:
        return self.place

    @property
    def columns(self) -> pa.Schema:
        return plain(pa.schema(self.delta.schema().to_arrow()))

    @property
    def partition_by(self) -> Sequence[str]:
        return list(self.delta.metadata().partition_columns)

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.delta.metadata().configuration)

    @property
    def description(self) -> str | None:
        description: str | None = self.delta.metadata().description
        return description

    @property
    def number(self) -> int:
        return int(self.delta.version())

    def last_version(self, app_id: str) -> int | None:
        version: int | None = self.delta.transaction_version(app_id)
        return version

    def files(self, columns: Sequence[str] = ()) -> list[RowFile]:
        actions = pa.table(self.delta.get_add_actions(flatten=True)).to_pydict()
        return [
            RowFile(
                local_path(path, self.folder),
                actions["size_bytes"][at],
                {name: str(actions[f"partition.{name}"][at]) for name in self.partition_by},
                actions["num_records"][at] or 0,
                ranges_of(actions, at, list(columns)),
            )
            for at, path in enumerate(actions["path"])
        ]

    def rows(self) -> Iterator[pa.RecordBatch]:
        yield from dataset_of(self.delta, self.folder).to_batches(
            batch_readahead=1, fragment_readahead=1
        )

    def newest(self) -> Self:
        return replace(self, delta=open_delta(self.place, _use(self.delta)))

    def commit_once(
        self, commit: Callable[[Self], None], *, app_id: str | None, version: int | None
    ) -> Self | None:
        try:
            delta = commit_once(
                self.delta,
                lambda newest: commit(replace(self, delta=newest)),
                reopen=lambda: self.newest().delta,
                app_id=app_id,
                version=version,
            )
        except CommitFailedError as error:
            raise StoreError(
                f"the lake table in {self.place} refused a commit: {error}; run the pipeline again"
            ) from error
        return None if delta is None else replace(self, delta=delta)

    def merge(self, changes: Changes, versions: Mapping[str, int]) -> None:
        if not self._has_rounded_bounds:
            apply(changes, self.delta, _properties(versions))
            return
        done = merged(self, changes)
        if done.added or done.removed or changes.emptied_at is not None:
            self.replace(done.added, done.removed, versions)

    def replace(
        self, added: Sequence[LakeFile], removed: Sequence[RowFile], versions: Mapping[str, int]
    ) -> None:
        files = [TableFile(file.path, file.size_bytes, file.partition) for file in removed]
        properties = _properties(versions, rewriting(self.delta))
        commit_files(self.delta, added, files, properties=properties)

    def forget(self, marked: str, at: str, before: datetime) -> None:
        with suppress(CommitFailedError):
            if not self._has_rounded_bounds:
                with commit_durably(self.delta, self.place):
                    self.delta.delete(f"{marked} and {at} < '{before.isoformat()}'")
                return
            moment = pa.scalar(before, self.columns.field(at).type)
            kept = ~(pc.field(marked) & (pc.field(at) < moment))
            done = filtered(self, kept, self.files())
            if done.removed:
                self.replace(done.added, done.removed, {})

    def overwrite(self, schema: pa.Schema, rows: Rows, versions: Mapping[str, int]) -> None:
        failures: list[SluiceError] = []  # delta-rs raises an error of its own for them

        def read(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            try:
                yield from found
            except SluiceError as error:
                failures.append(error)
                raise

        def commit(newest: DeltaMutableTable) -> None:
            found = rows(newest)  # opens the table, which delta-rs cannot do within its writer
            if newest._has_rounded_bounds and schema == newest.columns:
                newest.replace(written(newest, schema, found), newest.files(), versions)
                return
            with commit_durably(newest.delta, newest.place):
                write_deltalake(
                    newest.delta,
                    pa.RecordBatchReader.from_batches(schema, read(found)),
                    mode="overwrite",
                    schema_mode="overwrite",
                    partition_by=newest.partition_by or None,
                    commit_properties=_properties(versions, rewriting(newest.delta)),
                )

        try:
            self.commit_once(commit, app_id=None, version=None)
        except DeltaError:
            if failures:
                raise failures[0] from None
            raise

    def add_columns(self, columns: pa.Schema) -> None:
        added = Schema.from_arrow(columns).fields
        self.delta.alter.add_columns([Field(one.name, one.type) for one in added])

    @property
    def _has_rounded_bounds(self) -> bool:
        """True if delta-rs would write statistics with rounded decimals, and our own commits may change the table.

        Other readers then skip files that have matching rows.
        """
        feeds = (
            self.properties.get("delta.enableChangeDataFeed", "false").strip().lower() != "false"
        )
        rounded = any(pa.types.is_decimal(f.type) and not has_range(f.type) for f in self.columns)
        return rounded and not feeds and not self.partition_by

    def describe(self, description: str) -> None:
        # Not a table property: delta-rs 1.6.6 adds the feature variantType to a table with timestamps without a zone
        # when it sets properties of an existing table.
        if self.description != description:
            self.delta.alter.set_table_description(description)


def _use(delta: DeltaTable) -> Use:
    return Use.REPLACE if delta.metadata().partition_columns else Use.MERGE


def _properties(versions: Mapping[str, int], *others: Any) -> CommitProperties:
    transactions = [Transaction(app_id, version) for app_id, version in versions.items()]
    return CommitProperties(app_transactions=[*transactions, *others])
