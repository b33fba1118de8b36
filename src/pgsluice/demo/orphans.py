"""Find and kill the processes left by a killed run: pgbench, Spark's Java and its Python workers.

Each was started with the run's id in its environment, which child processes inherit. Unlike a list of
process ids, it cannot be left half written by a crash, or refer to an unrelated process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from pgsluice.errors import SluiceError

RUN_VARIABLE = "PGSLUICE_DEMO_RUN"
_PROC = Path("/proc")


def end_orphans(run_ids: Collection[str], *, deadline_s: float = 10.0) -> int:
    """Kill every process of these runs except this one, and wait until they have ended.

    Does nothing without `/proc`: Spark's Java ends with the process that started it, and pgbench when its
    sessions are terminated.

    Args:
        run_ids: Ids of dead runs.
        deadline_s: Maximum time for one process to end.

    Returns:
        The number of killed processes.

    Raises:
        SluiceError: A process does not end.
    """
    count = 0
    if sys.platform != "linux":
        return count
    variables = {f"{RUN_VARIABLE}={run_id}".encode() for run_id in run_ids}
    for pid in _other_pids():
        try:
            # Open the handle first, so that the process that is checked is the one killed.
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if variables.isdisjoint(_environment(pid)):
                continue
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            count += 1
            if not select.select([handle], [], [], deadline_s)[0]:
                raise SluiceError(
                    f"process {pid} of an earlier demo has not ended within {deadline_s:g} s after SIGKILL; "
                    "find out what blocks it (`ps -o stat,wchan,args -p "
                    f"{pid}`) and start the demo again"
                )
        finally:
            os.close(handle)
    return count


def _other_pids() -> Iterator[int]:
    own = os.getpid()
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != own:
            yield int(entry.name)


def _environment(pid: int) -> frozenset[bytes]:
    try:
        return frozenset((_PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:  # another user's process, or ended
        return frozenset()
