"""`pgsluice workers`: worker processes and what they run."""

from __future__ import annotations

from typing import Any

import click

from pgsluice.cli.clients import queue_clients
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import show
from pgsluice.client import WorkerProcess


@click.command()
@json_option
@dsn_option
def workers(as_json: bool, dsn: str | None) -> None:
    """List the worker processes of a database and what they run, and those lost in the last 24 hours.

    Workers report every 30 seconds. The state is live; silent if a worker has not reported for 90 seconds; or lost if
    its session has ended: it crashed or was killed, or has just lost its connection. A worker that stops gracefully is
    no longer listed.
    """
    with queue_clients(dsn) as clients:
        found = clients.operations.list_workers()
    show(found if as_json else map(_row, found), as_json, empty="no workers")


def _row(worker: WorkerProcess) -> dict[str, Any]:
    return {
        "app": worker.app,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "state": "live" if worker.is_live else "lost" if worker.has_session is False else "silent",
        "started_at": f"{worker.started_at:%Y-%m-%d %H:%M:%S%z}",
        "reported_at": f"{worker.reported_at:%Y-%m-%d %H:%M:%S%z}",
        "sources": ", ".join(worker.sources),
        "running": ", ".join(map(_call, worker.running)),
    }


def _call(call: dict[str, Any]) -> str:
    """Return a running call as text: `pack 7 of queue orders since 2026-01-31T10:00:00+00:00`."""
    place = " ".join(
        f"{kind} {call[kind]}" for kind in ("queue", "log", "group", "consumer") if kind in call
    )
    # A consumer of batches runs no single event.
    message_id = call.get("msg_id", call.get("ev_id"))
    what = [str(each) for each in (call.get("handler"), message_id) if each is not None]
    return f"{' '.join(what)} of {place} since {call.get('since')}"
