"""`pgsluice shards`: several databases that share the keys of messages."""

from __future__ import annotations

from typing import Any

import click

from pgsluice.cli.each_shard import exit_if_down
from pgsluice.cli.options import SHARDS_FILE, json_option
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo
from pgsluice.client import Operations
from pgsluice.client.calls import moving
from pgsluice.ops.shards import Shard, apply, move, opened
from pgsluice.shards import Shards

_file_option = click.option(
    "--shards",
    "path",
    **SHARDS_FILE,
    required=True,
    help="File that names the databases.  [env: PGSLUICE_SHARDS]",
)


@click.group()
def shards() -> None:
    """Manage several databases that share the keys of messages.

    A file names them. Each key belongs to one, and messages with a key are sent there.
    """


@shards.command("list")
@json_option
@_file_option
def list_(path: str, as_json: bool) -> None:
    """List the databases, with the directory that each has, and their messages.

    generation numbers the directories; a change is complete when all have the same and state is active. pins counts the
    keys that are pinned to the shard, queued its messages, moving those on their way to another shard. Exits with 3 if
    one is down.
    """
    with opened(Shards.load(path)) as found:
        rows = [_row(one) for one in found.values()]
        errors = [(one.name, one.error) for one in found.values() if one.error is not None]
    show(rows, as_json, empty="")
    exit_if_down(errors)


def _row(one: Shard) -> dict[str, Any]:
    row: dict[str, Any] = {
        "shard": one.name,
        "target": None if one.target is None else one.target.safe,
        "is_up": one.error is None,
        "generation": None,
        "state": None,
        "pins": None,
        "queued": None,
        "moving": None,
    }
    if one.error is None and one.connection is not None:
        states = Operations(one.connection).list_queue_states()
        row["state"] = "no directory"
        row["queued"] = sum(
            each.ready + each.in_flight + each.retrying + each.delayed for each in states
        )
        row["moving"] = one.runner.run(moving.count_moving())
    if one.state is not None:
        row["generation"] = one.state.generation
        row["state"] = "moving" if one.state.is_moving else "active"
        row["pins"] = sum(name == one.name for name in one.state.directory.pins.values())
    return row


@shards.command("apply")
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="Move all keys away from this shard, so that it can leave the file. Repeatable.",
)
@_file_option
def apply_(path: str, without: tuple[str, ...]) -> None:
    """Make FILE the directory of its databases, and move messages whose key has another shard then.

    Sends of such keys wait until all their messages have moved; those of other keys do not. Messages in flight are
    moved after they are settled or their lease has expired. Queues that a new shard lacks are created there. Needs all
    databases, and the role sluice_admin. After a crash or an error, run it again: it continues.
    """
    apply(Shards.load(path), without=without, say=_say)


@shards.command("move")
@click.argument("key")
@click.argument("to")
@_file_option
def move_(path: str, key: str, to: str) -> None:
    """Move the messages of KEY to the shard TO, and pin the key there, in FILE and in its databases.

    As `shards apply` with one more pin, without the other changes of FILE.
    """
    move(Shards.load(path), key, to, say=_say)


def _say(line: str) -> None:
    echo(line, err=True)
