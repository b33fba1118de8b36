"""Identify the query and micro-batch being written, as the key for idempotent commits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from pyspark import SparkContext, TaskContext


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Micro-batch of a query.

    Attributes:
        query_id: Query id, stable across restarts.
        batch_id: Micro-batch id, starting at 0.
    """

    query_id: str
    batch_id: int

    @classmethod
    def of(cls, context: TaskContext | SparkContext) -> MicroBatch:
        """Return the micro-batch of a task, or of a call of foreachBatch.

        Raises:
            SluiceError: Spark does not set the ids.
        """
        # Local properties are the only source of these ids in a task.
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch_id is None:
            raise SluiceError(
                "Spark did not set the query id and micro-batch id; start the stream with writeStream"
            )
        return cls(query_id, int(batch_id))

    @property
    def app_id(self) -> str:
        """App id of the query's commits, in the log of a lake table or in the sink ledger."""
        return f"pgsluice:{self.query_id}"


def reported(reports: Iterable[MicroBatch | None], batch_id: int) -> MicroBatch | None:
    """Return the micro-batch that all tasks report; None if no task reports one.

    Raises:
        SluiceError: A task reports another query or micro-batch.
    """
    found = set(reports)
    if not found:
        return None
    first = found.pop()
    if found or first is None or first.batch_id != batch_id:
        raise SluiceError(
            f"tasks of another query or micro-batch reported to micro-batch {batch_id}; restart the stream"
        )
    return first
