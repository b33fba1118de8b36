"""Change the directory of shards: `pgsluice shards apply` and `move`. Each can be repeated after a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from pgsluice.backoff import Backoff
from pgsluice.client.calls import shards as calls
from pgsluice.errors import ArgumentError, ConfigurationError, RetryableError, ShardError
from pgsluice.ops.shards.moving import Movement
from pgsluice.ops.shards.opening import Shard, opened
from pgsluice.ops.shards.pin_file import set_pin
from pgsluice.ops.shards.queues import create_missing
from pgsluice.shards import Directory, Shards, ShardState

Say = Callable[[str], None]

# A transaction that has sent by key and stays open holds up a change.
_BEGIN_S = 300.0


def apply(shards: Shards, *, without: Collection[str] = (), say: Say = lambda _line: None) -> int:
    """Make the file the directory of its databases, and move the messages of keys whose shard changes.

    Args:
        shards: The file, with all shards that the databases name.
        without: Shards of the file that shall have no keys any more, before they leave the file.
        say: Called with a line for each step.

    Returns:
        Number of messages that moved.

    Raises:
        ConfigurationError: The file lacks a shard that the databases name.
        ShardError: A shard is down, is another one, or another change runs. Run it again.
    """
    names = tuple(name for name in shards.names if name not in without)
    if unknown := sorted(set(without) - set(shards.names)):
        raise ArgumentError(f"{shards.place} has no shard {unknown[0]!r}")
    if not names:
        raise ArgumentError("no shard would be left")
    pins = {key: name for key, name in shards.directory.pins.items() if name in names}
    return _change(shards, lambda _current: Directory(names, pins), say)


def move(shards: Shards, key: str, to: str, *, say: Say = lambda _line: None) -> int:
    """Pin a key to a shard, in the file and in the databases, and move its messages.

    Args:
        shards: The file, whose directory the databases have.
        key: The key.
        to: The shard.
        say: Called with a line for each step.

    Returns:
        Number of messages that moved.

    Raises:
        ArgumentError: There is no such shard.
        ShardError: The databases have no directory; else as for `apply`.
    """

    def pinned(current: Directory | None) -> Directory:
        if current is None:
            raise ShardError("the databases have no directory yet", "run: pgsluice shards apply")
        if to not in current.names:
            raise ArgumentError(f"{to!r} is not a shard; use one of: {', '.join(current.names)}")
        chosen = current.pinned(key, to)
        if shards.path is not None and set_pin(shards.path, key, chosen.pins.get(key)):
            say(f"{shards.path}: the pin of {key!r} is written")
        return chosen

    return _change(shards, pinned, say)


def _change(shards: Shards, chosen: Callable[[Directory | None], Directory], say: Say) -> int:
    with opened(shards, shards.addresses) as found:
        _require_all(found)
        moved = 0
        # A change that has begun somewhere is finished first, whatever the file says now.
        current = _newest(found)
        if current is not None and any(
            one.state is not None and one.state.is_moving for one in found.values()
        ):
            _require_named(shards, current.directory, current.before)
            say(f"finishing the change of generation {current.generation} that has begun")
            moved += _carry_out(found, current.generation, current.directory, current.before, say)
        before = None if current is None else current.directory
        if before is not None:
            _require_named(shards, before)
        directory = chosen(before)
        generation = 0 if current is None else current.generation
        if directory == before and _all_have(found, directory, generation):
            say(f"the directory of generation {generation} is in place: nothing to do")
            return moved
        return moved + _carry_out(found, generation + 1, directory, before, say)


def _carry_out(
    shards: Mapping[str, Shard],
    generation: int,
    directory: Directory,
    before: Directory | None,
    say: Say,
) -> int:
    """Begin a directory everywhere, move the messages, and finish it; return the number of messages that moved."""
    names = [
        *directory.names,
        *sorted(set(() if before is None else before.names) - set(directory.names)),
    ]
    parts = {name: shards[name] for name in names}
    create_missing(parts)
    for one in parts.values():
        # In between, the sends that wait for the lock run.
        backoff = Backoff(
            f"shard {one.name}", lambda _level, text, *args: say(text % args), deadline_s=_BEGIN_S
        )
        while True:
            try:
                one.runner.run(calls.begin_directory(one.name, generation, directory, before))
                break
            except RetryableError as error:
                threading.Event().wait(backoff.failed(error))
    say(f"generation {generation} has begun: sends of keys that move wait")
    movement = Movement(parts, generation, directory, _changed_keys(directory, before), say)
    movement.run()
    for one in parts.values():
        one.runner.run(calls.finish_directory(generation))
        one.state = one.runner.run(calls.shard())
    say(f"generation {generation} is active; messages moved: {movement.moved}")
    return movement.moved


def _changed_keys(directory: Directory, before: Directory | None) -> list[str] | None:
    """Return the keys whose shard changes, if only pins differ; None: those that the shards have."""
    if before is None or before.names != directory.names:
        return None
    pins = {**before.pins, **directory.pins}
    return [key for key in pins if before.home(key) != directory.home(key)]


def _newest(shards: Mapping[str, Shard]) -> ShardState | None:
    states = [one.state for one in shards.values() if one.state is not None]
    return max(states, key=lambda state: state.generation, default=None)


def _all_have(shards: Mapping[str, Shard], directory: Directory, generation: int) -> bool:
    states = [shards[name].state for name in directory.names]
    return all(state is not None and state.generation == generation for state in states)


def _require_all(shards: Mapping[str, Shard]) -> None:
    """Refuse a change unless all shards are up: one that is down could have a newer directory."""
    for one in shards.values():
        if one.error is not None:
            raise ShardError(
                f"shard {one.name!r} is not available: {one.error}",
                "a change of the directory needs all shards; run the command again when it is up",
            )
        if one.state is not None and one.state.shard_name != one.name:
            raise ShardError(
                f"the database of shard {one.name!r} is the shard {one.state.shard_name!r}",
                "correct its DSN in the file of shards",
            )


def _require_named(shards: Shards, *directories: Directory | None) -> None:
    for directory in directories:
        for name in () if directory is None else directory.names:
            if name not in shards.addresses:
                raise ConfigurationError(
                    f"{shards.place} lacks the shard {name!r}, which has keys; add it again. To remove it, first run "
                    f"`pgsluice shards apply --without {name}`, which moves its messages"
                )
