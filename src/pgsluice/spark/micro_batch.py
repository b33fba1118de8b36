"""Which micro-batch of which query is being written, and the name under which that is remembered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from pyspark import SparkContext, TaskContext


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch of a query.

    Attributes:
        query_id: The query's id, the same after a restart.
        batch_id: Its number; the first is 0.
    """

    query_id: str
    batch_id: int

    @classmethod
    def of(cls, context: TaskContext | SparkContext) -> MicroBatch:
        """The one that a task is of, or that foreachBatch was called with.

        Raises:
            SluiceError: Spark does not say.
        """
        # Spark tells a task neither the query nor the micro-batch, except here.
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch_id is None:
            raise SluiceError(
                "Spark does not say which micro-batch of which query this is; use PySpark 4.2 or newer "
                "and start the stream with writeStream"
            )
        return cls(query_id, int(batch_id))

    @property
    def app_id(self) -> str:
        """The name under which the query's commits stand in a table's log, or in the ledger of sinks."""
        return f"pgsluice:{self.query_id}"


def reported(told: Iterable[MicroBatch | None], batch_id: int) -> MicroBatch | None:
    """The micro-batch of this number that all tasks report; None where no task reports anything.

    Raises:
        SluiceError: They report others.
    """
    found = set(told)
    if not found:
        return None
    first = found.pop()
    if found or first is None or first.batch_id != batch_id:
        raise SluiceError(
            f"tasks of another query or micro-batch reported to micro-batch {batch_id}; restart the stream"
        )
    return first
