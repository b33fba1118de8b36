"""Current-state tables of a log in PostgreSQL, maintained in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from pgsluice.lake.current_tables import Tables
from pgsluice.lake.names import ColumnName, TableName
from pgsluice.pipelines.current_state import apply as applying
from pgsluice.pipelines.current_state.apply import CurrentStates
from pgsluice.pipelines.current_state.parking import Parking
from pgsluice.pipelines.current_state.pieces import in_turn
from pgsluice.pipelines.current_state.reading import Event, markers_in, tables_in
from pgsluice.pipelines.current_state.shaping import Shaping
from pgsluice.spark.access import Access
from spark.changing import write_events
from spark.conftest import LOG
from spark.lake_reading import lake_table
from support.servers import Database


class States:
    """The current-state tables of a lake, updated with the new events of the log at each call of `update`."""

    def __init__(
        self,
        database: Database,
        log: psycopg.Connection,
        current: Tables,
        folder: Path,
        *,
        buckets: Mapping[str, int] | None = None,
        column_types: Mapping[str, pa.DataType] | None = None,
        are_many: bool = False,
        rebuilds: bool = False,
    ) -> None:
        access = Access(dsn=database.url)
        self.parking = Parking(current, LOG, access, rebuilds=rebuilds)
        self.current, self._log, self._folder, self._are_many = current, log, folder, are_many
        kinds = {ColumnName.parse(name): kind for name, kind in (column_types or {}).items()}
        counts = {TableName.parse(name): count for name, count in (buckets or {}).items()}
        shaping = Shaping(access, LOG, self.parking, kinds)
        self._states = CurrentStates(current, shaping, None, counts, 1e6, self.parking)
        self._version = self._after = -1

    def update(self) -> None:
        """Apply the events since the last update; rewrite files as for many changes if the fixture wants it."""
        events = self._log.execute(
            "select ev_id, (extract(epoch from ev_time) * 1000000)::bigint, ev_type, ev_data, ev_extra1, ev_extra2 "
            "from pgq.event_1 where ev_id > %s order by ev_id",
            (self._after,),
        ).fetchall()
        if events:
            self._after = events[-1][0]
            self.apply(events, version=self._version + 1)

    def apply(self, events: Sequence[Event], *, version: int) -> None:
        """Apply events as a micro-batch."""
        self._version = version
        path = self._folder / f"events-{self._version}.parquet"
        write_events(path, events)
        (batch,) = pq.read_table(path).combine_chunks().to_batches()
        with patch.object(applying, "_ROWS_MERGED_MAX", -1 if self._are_many else 500_000):
            self._states.apply(
                {self._version: [path]},
                tables_in(batch),
                markers=markers_in(batch),
                row_count=len(events),
                app_id="a",
                tasks=in_turn,
            )

    def at(self, name: str) -> str:
        """Return the address of a table."""
        return str(self.current.place_of(TableName.parse(name)))

    def live(self, name: str) -> list[dict]:
        """Return the rows of a table without tombstones, read by another reader than the pipeline's."""
        return [row for row in lake_table(self.at(name)).to_pylist() if not row["_deleted"]]

    def parked(self, name: str) -> str | None:
        """Return why a table is parked; None if it is not."""
        state = self.parking._states.get(TableName.parse(name))
        return state and state.parked
