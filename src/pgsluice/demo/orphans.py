"""Find and end what a killed run left behind: pgbench, Spark's Java and its Python workers.

Each of them was started with the run's id in its environment, which its own children inherit. So they
are told apart from everything else on the machine without a list of process ids that a crash could
leave half written, or that could name a stranger by now.
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
    """Kill every process of these runs but this one, and wait until they are gone.

    Where there is no `/proc` it does nothing: Spark's Java ends by itself when the process that
    started it does, and pgbench when its sessions are terminated.

    Args:
        run_ids: Ids of runs that are known to be dead.
        deadline_s: How long one process may take to disappear.

    Returns:
        How many there were.

    Raises:
        SluiceError: One does not go away.
    """
    count = 0
    if sys.platform != "linux":
        return count
    marks = {f"{RUN_VARIABLE}={run_id}".encode() for run_id in run_ids}
    for pid in _other_pids():
        try:
            # The handle is opened before the look, so that what is looked at is what is killed.
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if marks.isdisjoint(_environment(pid)):
                continue
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            count += 1
            if not select.select([handle], [], [], deadline_s)[0]:
                raise SluiceError(
                    f"process {pid} of an earlier demo does not end within {deadline_s:g} s of SIGKILL; "
                    "see what it waits for (`ps -o stat,wchan,args -p "
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
    except OSError:  # another user's, or gone
        return frozenset()
