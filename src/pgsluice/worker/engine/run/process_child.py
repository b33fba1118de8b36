"""Main loop of a handler process: runs one job after another until the worker closes the pipe."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError, HandlerError
from pgsluice.frameworks import django_databases, set_up
from pgsluice.tracing.switch import joined
from pgsluice.worker.engine.delivery import Delivery, Settlement
from pgsluice.worker.engine.run.base_context import BaseContext
from pgsluice.worker.engine.run.context import SyncContext
from pgsluice.worker.engine.settle.settlement import (
    decoded,
    failed,
    failure_of,
    settlement_of_error,
    settlements_of_results,
)
from pgsluice.worker.forks import default_in_forks, end_fork, ignore
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.handlers.middleware import Middleware, around_in_thread

# The OOM killer should prefer this process to the worker that holds the claims.
_OOM_SCORE = "800"
# Interval at which a handler process checks that its worker is alive.
_LOOK_S = 1.0
# Sent before a handler is called: until then the death of the process is not an attempt.
BEGUN = b"begun"


@dataclass(frozen=True, slots=True)
class Job:
    """A handler call, as sent to a handler process.

    Attributes:
        module: Module of the handler.
        qualname: Its qualified name.
        deliveries: The messages, without `raw`; empty: only verify that the handler can be imported.
        is_batch: True if they are one batch call.
        databases: Names of Django's databases by alias, if the worker uses Django.
    """

    module: str
    qualname: str
    deliveries: tuple[Delivery, ...]
    is_batch: bool
    databases: dict[str, Any]

    @classmethod
    def of(cls, spec: HandlerSpec, payloads: Sequence[Any], contexts: Sequence[BaseContext]) -> Job:
        """Make the job of a handler call with these payloads."""
        deliveries = tuple(
            replace(context.delivery, payload=payload, raw=None)
            for payload, context in zip(payloads, contexts, strict=True)
        )
        function = spec.function
        is_batch = spec.batch is not None
        databases = django_databases()
        return cls(function.__module__, function.__qualname__, deliveries, is_batch, databases)


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of a job.

    Attributes:
        settlements: One per delivery.
        is_failure: True if the call as a whole failed; all settlements are then equal.
    """

    settlements: tuple[Settlement, ...]
    is_failure: bool

    def __reduce__(self) -> tuple[object, ...]:
        return (_unpacked, (tuple(map(PackedSettlement.of, self.settlements)), self.is_failure))


@dataclass(frozen=True, slots=True)
class PackedSettlement:
    """A pickled settlement, with a description in case its outcome cannot be unpickled.

    A handler may return an instance of its own subclass of an outcome.

    Attributes:
        pickled: The settlement.
        outcome: Class and text of its outcome.
    """

    pickled: bytes
    outcome: str

    @classmethod
    def of(cls, settlement: Settlement) -> PackedSettlement:
        """Pickle a settlement, or a failure that reports that its outcome cannot be pickled."""
        text = (settlement.failure or failure_of(settlement.outcome)).message
        outcome = f"{type(settlement.outcome).__name__}: {text}"
        try:
            return cls(pickle.dumps(settlement), outcome)
        except Exception as error:  # noqa: BLE001 - the user's class may raise anything
            return cls(pickle.dumps(_unsendable(outcome, error)), outcome)

    def settlement(self) -> Settlement:
        """Unpickle the settlement, or return a failure that reports that its outcome cannot be unpickled."""
        try:
            settlement: Settlement = pickle.loads(self.pickled)  # noqa: S301 - from a process of this worker
        except Exception as error:  # noqa: BLE001 - the user's class may raise anything
            return _unsendable(self.outcome, error)
        return settlement


def _unpacked(settlements: tuple[PackedSettlement, ...], is_failure: bool) -> Reply:
    return Reply(tuple(each.settlement() for each in settlements), is_failure)


def _unsendable(outcome: str, error: Exception) -> Settlement:
    return failed(
        HandlerError(
            f"the outcome {outcome} cannot be pickled and sent from the handler's process to the worker "
            f"({type(error).__name__}: {error}); define its class at module level, or use Done, Retry, "
            "Release or Reject itself"
        )
    )


def find(job: Job) -> tuple[HandlerSpec, Sequence[Middleware]]:
    """Import the handler of a job, and return it with the middleware of its app.

    Raises:
        ConfigurationError: It does not exist.
    """
    set_up(job.databases)
    found: Any = importlib.import_module(job.module)
    for name in job.qualname.split("."):
        found = getattr(found, name, None)
    spec = getattr(found, "spec", None)
    if not isinstance(spec, HandlerSpec):
        raise ConfigurationError(
            f"a handler process cannot find {job.qualname} in {job.module}; define the handler at module level"
        )
    return spec, getattr(found, "middlewares", ())


def call(job: Job) -> Reply:
    """Call the handler in this process."""
    spec, middlewares = find(job)
    decoded_payloads = [decoded(spec, delivery.payload) for delivery in job.deliveries]
    payloads = [each for each in decoded_payloads if not isinstance(each, Settlement)]
    if not payloads:
        return Reply(tuple(decoded_payloads), is_failure=not job.is_batch)
    contexts = [
        SyncContext(spec, delivery, None, None)
        for delivery, payload in zip(job.deliveries, decoded_payloads, strict=True)
        if not isinstance(payload, Settlement)
    ]
    first: Any = payloads if job.is_batch else payloads[0]
    second: Any = contexts if job.is_batch else contexts[0]
    pid = os.getpid()
    is_failure = False
    try:
        with joined(job.deliveries[0].span):
            result = around_in_thread(middlewares, partial(_function, spec))(first, second)
            end_fork(pid)
    except BaseException as error:  # noqa: BLE001 - SystemExit is a failure too
        end_fork(pid, error)
        result = settlement_of_error(spec, error)
        is_failure = len(payloads) == len(job.deliveries)
    else:
        result = result if job.is_batch else [result]
    settled = iter(settlements_of_results(spec, result, len(payloads)))
    settlements = tuple(
        each if isinstance(each, Settlement) else next(settled) for each in decoded_payloads
    )
    return Reply(settlements, is_failure)


def _function(spec: HandlerSpec, payload: Any, context: Any) -> Any:
    return spec.function(payload, context) if spec.takes_context else spec.function(payload)


def serve(pipe: Connection, max_memory_mb: int | None) -> None:
    """Run jobs until the other end of the pipe is closed."""
    # Own process group, so that killing it also kills processes started by the job.
    with contextlib.suppress(OSError):
        os.setsid()
    # A service manager signals all processes, but the worker drains running jobs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ignore)
        signal.siginterrupt(number, False)
    default_in_forks()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    if max_memory_mb is not None:
        _limit_memory(max_memory_mb)
    threading.Thread(target=_end_with_parent, name="pgsluice-parent", daemon=True).start()
    while True:
        try:
            job: Job = pickle.loads(pipe.recv_bytes())  # noqa: S301 - from the worker that started this
            if job.deliveries:
                pipe.send_bytes(BEGUN)
        except (EOFError, OSError):
            return
        except MemoryError as error:  # from its payload
            reply: Reply | str = Reply((failed(error),), is_failure=True)
        else:
            reply = call(job) if job.deliveries else _probe(job)
            del job
        try:
            pipe.send_bytes(pickle.dumps(reply))
        except OSError:
            return
        del reply


def _probe(job: Job) -> str:
    """Return the reason why a handler cannot be imported, or an empty string."""
    try:
        find(job)
    except BaseException as error:  # noqa: BLE001 - importing the user's module may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _limit_memory(max_memory_mb: int) -> None:
    import resource

    limit = max_memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with_parent() -> None:
    """Kill this process when its worker dies: another worker will claim the message."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # Poll getppid() too: a fork of the worker may hold the other end of its sentinel.
    while os.getppid() == parent.pid and not wait_for([parent.sentinel], _LOOK_S):
        pass
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # including processes started by the job
    os._exit(1)
