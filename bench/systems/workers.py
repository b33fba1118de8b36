"""Systems with a worker: ours first, with both sources, then the peers."""

from __future__ import annotations

from collections.abc import Callable

from bench.systems.awa import Awa
from bench.systems.loop import Loop
from bench.systems.pgqueuer import Pgqueuer
from bench.systems.procrastinate import Procrastinate
from bench.systems.worker import GroupWorker, QueueWorker
from bench.working import Working
from pgsluice.errors import MissingExtraError

SYSTEMS: dict[str, Callable[[], Working]] = {
    "work queue": QueueWorker,
    "share group": GroupWorker,
    "pgqueuer": Pgqueuer,
    "procrastinate": Procrastinate,
    "awa": Awa,
    "loop": Loop,
}


def worker_systems() -> list[Working]:
    """Return the installed systems; print the skipped ones."""
    found = []
    for make in SYSTEMS.values():
        system = make()
        try:
            system.version()
        except MissingExtraError as error:
            print(f"skipped: {error}")
        else:
            found.append(system)
    return found
