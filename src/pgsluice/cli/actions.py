"""`pgsluice actions`: who paused, redrove, purged, replayed or dropped what."""

from __future__ import annotations

import json
from typing import Any

import click

from pgsluice.cli.clients import queue_clients
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import show
from pgsluice.client import OperatorAction


@click.command()
@click.argument("of_queue", metavar="[QUEUE]", required=False)
@click.option(
    "--qty",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of actions.",
)
@click.option(
    "--before",
    "before_action_id",
    type=int,
    metavar="ACTION_ID",
    help="Only actions with a lower action_id.",
)
@json_option
@dsn_option
def actions(
    of_queue: str | None, qty: int, before_action_id: int | None, as_json: bool, dsn: str | None
) -> None:
    """List actions of operators on a queue or log, or all, newest first; they are kept for 90 days.

    Recorded are pauses, redrives, purges of dead letters, replays, changes of retention and limits, unparked keys,
    changes of schedules, and dropped queues, share groups and captures, also those by SQL.
    """
    with queue_clients(dsn) as clients:
        found = clients.operations.list_actions(
            of_queue, before_action_id=before_action_id, qty=qty
        )
    show(found if as_json else map(_row, found), as_json, empty="no actions")


def _row(action: OperatorAction) -> dict[str, Any]:
    return {
        "action_id": action.action_id,
        "acted_at": f"{action.acted_at:%Y-%m-%d %H:%M:%S%z}",
        "actor": action.actor,
        "application": action.application,
        "action": action.action,
        "queue_name": action.queue_name,
        "messages": action.message_count,
        "filter": None if action.filter is None else json.dumps(action.filter, ensure_ascii=False),
        "note": action.note,
    }
