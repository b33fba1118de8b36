"""Handlers that another process imports by their names."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgsluice.errors import PayloadError
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.app.app import App
from pgsluice.worker.handlers.handler import Batch, Execution
from support.runtime import spec_for


class Found:
    """A namespace of handlers, found by attribute names."""

    def __init__(self, function: Any, **options: Any) -> None:
        self.spec = spec_for(function, execution=Execution.PROCESS, **options)


class TwoArguments(Reject):
    """An outcome that cannot be unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class OnlyInTheProcess(Reject):
    """An outcome whose class can be imported only in the handler's process."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_only_here, (os.getpid(), self.reason))


def _only_here(pid: int, reason: str) -> Reject:
    if pid != os.getpid():
        raise LookupError("no such class here")
    return OnlyInTheProcess(reason)


class TwoArgumentsError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.lock = threading.Lock()


def _decode(payload: Any) -> Any:
    if payload == "misfit":
        raise PayloadError("no order")
    return payload


def do(payload: Any, context: Any) -> Any:
    """Do what the payload requests."""
    match payload:
        case "raise":
            raise KeyError("raised")
        case "exit":
            os._exit(3)
        case "sys.exit":
            sys.exit(4)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            while True:
                time.sleep(1)
        case "memory":
            return len(bytearray(4 << 30)) and None
        case "reject":
            return Reject("bad")
        case "retry":
            raise Retry(0, "later")
        case "release":
            return Release(60)
        case {"local": kind, "raise": is_raised}:
            bases = {"Done": Done, "Retry": Retry, "Release": Release, "Reject": Reject}
            base = bases[kind]

            class Local(base):  # type: ignore[valid-type,misc]
                pass

            outcome = Local(reason="bad") if "reason" in base.__dataclass_fields__ else Local()
            if is_raised:
                raise outcome
            return outcome
        case "two arguments":
            return TwoArguments("very", "bad")
        case "only in the process":
            return OnlyInTheProcess("bad")
        case "local exception":

            class LocalError(Exception):
                pass

            raise LocalError("raised", lambda: None)
        case "exception of two arguments":
            raise TwoArgumentsError("very", "bad")
        case "signals":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
        case "attempt":
            assert (context.attempt, context.message_id) == (1, 1)
        case {"pid": path}:
            with Path(path).open("a") as file:
                file.write(f"{os.getpid()}\n")
        case {"wait": path}:
            while not Path(path).exists():
                time.sleep(0.01)
        case {"hang": path}:
            Path(path).write_text(str(os.getpid()))
            while True:
                time.sleep(1)
    return None


found = do
do = Found(do, decode=_decode)  # type: ignore[assignment]


def each(payloads: list[Any], contexts: list[Any]) -> Any:
    """Do what each payload requests."""
    return [found(*one) for one in zip(payloads, contexts, strict=True)]


each = Found(each, batch=Batch(10, 0.05), decode=_decode)  # type: ignore[assignment]


def _unimportable(payload: Any) -> None:
    """A handler that cannot be found by its name."""


_unimportable.__qualname__ = "nobody"
unimportable_spec = replace(do.spec, function=_unimportable, takes_context=False)


@Found
def cancellable(path: str) -> None:
    """Write the process id into a file, wait, and write another file."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)
    Path(path).with_suffix(".end").touch()


sizes = App(name="sizes")


@sizes.handler("sizes", name="tested", keep_result="1h", execution="process")
def size(width: int) -> dict[str, int]:
    """Return a result from a process."""
    return {"width": width}
