"""Handlers that start processes of their own; each writes down which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pgsluice.worker import App

app = App(name="forking")
FOLDER = Path(os.environ.get("FORKING_FOLDER", "."))
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def note(name: str, pid: int) -> None:
    """Write a pid down, whole at any moment."""
    path = FOLDER / f"{name}.new"
    path.write_text(str(pid))
    path.replace(FOLDER / f"{name}-{time.monotonic_ns()}")


def fork_and_sleep() -> int:
    """Start a copy of this process that does nothing."""
    pid = os.fork()
    if pid == 0:
        try:
            time.sleep(600)
        finally:
            os._exit(0)
    return pid


@app.handler("forks", execution="process", timeout_s=2.0, concurrency=1)
def start_processes(payload: Any) -> None:
    """Start a program and a copy of this process, and do what the payload says."""
    note("started", subprocess.Popen(SLEEP).pid)
    note("forked", fork_and_sleep())
    note("handler", os.getpid())
    if payload == "exit":
        os._exit(3)
    time.sleep(600)


@app.handler("leaves", execution="process", concurrency=1)
def leave_a_process(_payload: Any) -> None:
    """Return while a program runs."""
    note("left", subprocess.Popen(SLEEP).pid)


@app.handler("escapes", execution="process", timeout_s=1.0, concurrency=1)
def start_a_session(_payload: Any) -> None:
    """Start a program in a session of its own, and run too long."""
    note("escaped", subprocess.Popen(SLEEP, start_new_session=True).pid)
    time.sleep(600)


@app.handler("outlives", timeout_s=1.0, concurrency=2)
def start_in_thread(_payload: Any) -> None:
    """Start a program in a thread, and run too long."""
    note("outlived", subprocess.Popen(SLEEP).pid)
    time.sleep(600)


def terminate() -> None:
    """Start a program and a copy of this process, and end both by SIGTERM."""
    started = subprocess.Popen(SLEEP)
    forked = fork_and_sleep()
    started.terminate()
    os.kill(forked, signal.SIGTERM)
    note(f"started{-started.wait(20)}", started.pid)
    end_s = time.monotonic() + 20
    while (ended := os.waitpid(forked, os.WNOHANG)) == (0, 0) and time.monotonic() < end_s:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(forked, signal.SIGKILL)
        ended = os.waitpid(forked, 0)
    note(f"forked{os.WTERMSIG(ended[1])}", forked)


@app.handler("terminates", execution="process", concurrency=1)
def in_process(_payload: Any) -> None:
    """End processes of a handler in a process."""
    terminate()


@app.handler("threads", concurrency=1)
def in_thread(_payload: Any) -> None:
    """End processes of a handler in a thread."""
    terminate()
