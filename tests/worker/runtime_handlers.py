"""Handlers that another process finds by their names."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgsluice.errors import PayloadError
from pgsluice.worker.answer import Reject, Release, RetryAfter
from pgsluice.worker.handler import Batch, Execution
from support_runtime import spec_for


class Found:
    """What a module has under the name of a handler."""

    def __init__(self, function: Any, **options: Any) -> None:
        self.spec = spec_for(function, execution=Execution.PROCESS, **options)


def _decode(payload: Any) -> Any:
    if payload == "misfit":
        raise PayloadError("no order")
    return payload


def do(payload: Any, context: Any) -> Any:
    """Do what the payload says."""
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
            raise RetryAfter(0, "later")
        case "release":
            return Release(60)
        case "signals":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
        case "attempt":
            assert (context.attempt, context.message_id) == (1, 1)
        case {"pid": path}:
            with Path(path).open("a") as file:
                file.write(f"{os.getpid()}\n")
        case {"hang": path}:
            Path(path).write_text(str(os.getpid()))
            while True:
                time.sleep(1)
    return None


found = do
do = Found(do, decode=_decode)  # type: ignore[assignment]


def each(payloads: list[Any], contexts: list[Any]) -> Any:
    """Do what each payload says."""
    return [found(*one) for one in zip(payloads, contexts, strict=True)]


each = Found(each, batch=Batch(10, 0.05), decode=_decode)  # type: ignore[assignment]


def _nobody(payload: Any) -> None:
    """Not to be found under its name."""


_nobody.__qualname__ = "nobody"
nobody_spec = replace(do.spec, function=_nobody, takes_context=False)
