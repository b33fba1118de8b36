"""Parts of connection pools: the last failure, and deadlines of exchanges and checks."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg_pool import PoolTimeout

from pgsluice.backoff import next_delay_s
from pgsluice.errors import one_line


@dataclass(slots=True)
class LastFailure:
    """The last connection failure of a pool.

    Attributes:
        error: The error, or None after a success.
    """

    error: psycopg.Error | None = None

    @contextlib.contextmanager
    def recorded(self) -> Generator[None]:
        """Record whether the block fails."""
        try:
            yield
        except psycopg.Error as error:
            self.error = error
            raise
        self.error = None

    def timeout(self, seconds: float, qty: int) -> PoolTimeout:
        """Return the error of a caller whose timeout expired.

        Args:
            seconds: The timeout.
            qty: Maximum size of the pool.
        """
        reason = (
            f"all {qty} connections of this pool are in use (see --max-connections)"
            if self.error is None
            else one_line(str(self.error))
        )
        return PoolTimeout(f"no connection within {seconds:.0f} s: {reason}")


def recorded(options: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    """Record whether the block fails in the connection option `last_failure`, which is removed."""
    last_failure: LastFailure = options.pop("last_failure", None) or LastFailure()
    return last_failure.recorded()


def end_at(gen: PQGen[Any], until_s: float) -> PQGen[Any]:
    """Raise OperationalError if the exchange is not done at `until_s`; psycopg polls ten times a second."""
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if time.monotonic() > until_s:
                gen.close()
                raise psycopg.OperationalError("the server did not respond")
            awaited = gen.send(ready)
    except StopIteration as end:
        return end.value


def check_again_s(failures: int, end_s: float) -> float:
    """Return the delay after a failed check: 0 after the first, as its successor is new."""
    return max(0.0, min(next_delay_s(failures, delay_max_s=1.0), end_s - time.monotonic()))


async def given(value: Any) -> Any:
    """Return an argument of a pool, or the result if it is a callable."""
    made = value() if callable(value) else value
    return await made if inspect.isawaitable(made) else made
