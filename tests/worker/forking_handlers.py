"""Handlers that start processes; each process records its pid."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pgsluice.worker import App, Context, RetryPolicy, SyncContext

app = App(name="forking")
FOLDER = Path(os.environ.get("FORKING_FOLDER", "."))
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def note(name: str, pid: int) -> None:
    """Record a pid, atomically."""
    path = FOLDER / f"{name}.new"
    path.write_text(str(pid))
    path.replace(FOLDER / f"{name}-{time.monotonic_ns()}")


atexit.register(lambda: note("atexit", os.getpid()))


def fork_and_sleep() -> int:
    """Fork a process that does nothing."""
    pid = os.fork()
    if pid == 0:
        try:
            time.sleep(600)
        finally:
            os._exit(0)
    return pid


@app.handler("forks", execution="process", timeout_s=2.0, concurrency=1)
def start_processes(payload: Any) -> None:
    """Start a program and a fork, and end as the payload requests."""
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
    """Start a program and a fork, and end both by SIGTERM."""
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
    """Terminate processes that a handler in a process started."""
    terminate()


@app.handler("threads", concurrency=1)
def in_thread(_payload: Any) -> None:
    """Terminate processes that a handler in a thread started."""
    terminate()


def leave(way: str) -> None:
    """End the handler in its fork, in the requested way."""
    note("fork", os.getpid())
    match way:
        case "exit":
            sys.exit(0)
        case "raise":
            raise RuntimeError("a fork of a handler raised this")


def join(pid: int) -> None:
    """Wait for the end of a fork; record one that does not end."""
    end_s = time.monotonic() + 20
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end_s:
            note("endless", pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.01)


def run_in_multiprocessing(_way: str) -> None:
    """Start a process of `multiprocessing` by a fork, and wait for it."""
    process = multiprocessing.get_context("fork").Process(target=leave, args=("return",))
    process.start()
    join_process(process)


def join_process(process: Any) -> None:
    """As `join`."""
    process.join(20)
    if process.exitcode != 0:
        note("endless", process.pid)
        process.kill()


INSERT = "insert into effect values ('forks', %s, %s)"


@app.handler("forks_in_thread", concurrency=1, retry=RetryPolicy(1))
def fork_in_thread(way: str, context: SyncContext) -> None:
    """Fork in the transaction or before it; the fork leaves the handler as the payload requests."""
    if way == "multiprocessing":
        run_in_multiprocessing(way)
    elif way == "before":
        pid = os.fork()
        if pid:
            join(pid)
    with context.transaction() as connection:
        connection.execute(INSERT, (context.message_id, str(os.getpid())))
        if way in {"return", "exit", "raise"}:
            pid = os.fork()
            if pid == 0:
                leave(way)
                return
            join(pid)


@app.handler("forks_in_loop", concurrency=1, retry=RetryPolicy(1))
async def fork_in_loop(way: str, context: Context) -> None:
    """As `fork_in_thread`."""
    if way == "multiprocessing":
        run_in_multiprocessing(way)
    elif way == "before":
        pid = os.fork()
        if pid == 0:
            await asyncio.sleep(0)
            note("endless", os.getpid())
        join(pid)
    async with context.transaction() as connection:
        await connection.execute(INSERT, (context.message_id, str(os.getpid())))
        if way in {"return", "exit", "raise"}:
            pid = os.fork()
            if pid == 0:
                leave(way)
                return
            join(pid)


@app.handler("forks_in_process", execution="process", concurrency=1, retry=RetryPolicy(1))
def fork_in_process(way: str) -> None:
    """Fork; the fork leaves the handler as the payload requests."""
    if way == "multiprocessing":
        run_in_multiprocessing(way)
        return
    pid = os.fork()
    if pid == 0:
        leave(way)
        return
    join(pid)
    note("handled", os.getpid())


def sleep_in_fork() -> None:
    """Fork a process that does nothing, and keep running."""
    note("sleeper", fork_and_sleep())
    time.sleep(600)


@app.handler("sleeps_in_thread", mode="transaction")
def sleep_in_thread(_payload: Any) -> None:
    """Hold the message in a transaction, with a fork."""
    sleep_in_fork()


@app.handler("sleeps_in_loop", mode="transaction")
async def sleep_in_loop(_payload: Any) -> None:
    """As `sleep_in_thread`."""
    sleep_in_fork()
