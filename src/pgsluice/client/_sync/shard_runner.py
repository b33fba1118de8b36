# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Run calls at the shard of a key: sends are checked there, so that none follows an outdated directory."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from pgsluice.backoff import jittered
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import shards
from pgsluice.client.calls.call import Call
from pgsluice.client.headers import keyed
from pgsluice.client.sources import Connectable
from pgsluice.errors import ArgumentError, DirectoryChangedError, RetryableError, ShardError
from pgsluice.pools import Pools
from pgsluice.shards.directory import ShardState
from pgsluice.shards.pool import ShardPool
from pgsluice.shards.router import Router

Result = TypeVar("Result")
# The wait for a key whose messages move, and the interval at which it is asked for.
_MOVING_MAX_S = 30.0
_ASK_S = 0.2


class ShardRunner:
    """Run calls at the shards of some keys."""

    def __init__(
        self,
        pools: Pools,
        router: Router,
        keys: Sequence[str] = (),
        connection: Connectable | None = None,
        *,
        is_traced: bool = True,
    ) -> None:
        """Prepare a runner without connecting.

        Args:
            pools: Connections to the shards.
            router: Home of a key; learns of newer directories.
            keys: The key of each message.
            connection: Run sends on this connection, which must be one to the home of the keys. None: on the pools.
            is_traced: False if sends are never traced.
        """
        self._pools = pools
        self._router = router
        self._keys = keys
        self._is_traced = is_traced
        self._given = None if connection is None else Runner(connection, is_traced=is_traced)

    def at(self, key: str) -> ShardRunner:
        """Return a runner at the shard of a key.

        Raises:
            ArgumentError: The key is not a text.
        """
        if not isinstance(key, str):
            raise ArgumentError(f"key is of type {type(key).__name__}; use a str")
        return ShardRunner(self._pools, self._router, (key,), is_traced=self._is_traced)

    def run(self, call: Call[Result]) -> Result:
        """Run one call at the shard of the key; what it sends gets the key.

        Raises:
            ArgumentError: No key was chosen, or a message has another one.
            ShardError: The database is not the shard, or has no directory.
            RetryableError: Messages of the key still moved to another shard after 30 seconds; or the directory has
                changed, and the caller's transaction must be repeated.
            SluiceError: As for `Runner.run`.
        """
        if len(self._keys) != 1:
            raise ArgumentError("the client has several databases; choose one with at(key)")
        key = self._keys[0]
        if call.sends is not None:
            sent = keyed(call, key)
            ((_, result),) = self.run_parts(lambda _: sent)
            return result
        if self._given is not None:
            return self._given.run(call)
        if self._router.state is None:
            self._learn(self._router.home(key))
        return (self._runner(self._router.home(key))).run(call)

    def run_parts(
        self, make: Callable[[list[int]], Call[Result]]
    ) -> list[tuple[list[int], Result]]:
        """Send messages with several keys: those of one shard in one statement, all or none of them.

        Args:
            make: Returns the call that sends the messages at these positions of the keys.

        Returns:
            The positions and the result of each call.

        Raises:
            SluiceError: As for `run`. The messages of other shards may have been sent.
        """
        end_s = time.monotonic() + _MOVING_MAX_S
        rest = list(range(len(self._keys)))
        done: list[tuple[list[int], Result]] = []
        while rest:
            # Home and generation of one directory, whatever other senders learn meanwhile.
            state = self._router.state
            if state is None:
                self._learn(self._router.home(self._keys[rest[0]]))
                continue
            free = [position for position in rest if not state.is_held(self._keys[position])]
            if not free:
                self._await_move(state, self._keys[rest[0]], end_s)
                continue
            name = state.directory.home(self._keys[free[0]])
            part = [each for each in free if state.directory.home(self._keys[each]) == name]
            call = shards.checked(make(part), name, state.generation)
            try:
                result = self._send(call, name)
            except DirectoryChangedError:
                self._learn(name)
                if self._given is not None or time.monotonic() >= end_s:
                    raise
                continue
            done.append((part, result))
            rest = [position for position in rest if position not in part]
        return done

    def _send(self, call: Call[Result], name: str) -> Result:
        if self._given is None:
            return (self._runner(name)).run(call)
        try:
            return self._given.run(call)
        except DirectoryChangedError:
            raise
        except ShardError as error:
            raise ShardError(
                error.problem,
                f"pass a connection to shard {name!r}, to which the key belongs, or none",
                sqlstate=error.sqlstate,
            ) from error

    def _await_move(self, state: ShardState, key: str, end_s: float) -> None:
        """Ask the new shard of a key for a newer directory, and pause if it has none.

        Raises:
            RetryableError: It took too long; or a transaction of the caller is open, for which the move may wait.
        """
        if self._given is not None or time.monotonic() >= end_s:
            raise RetryableError(
                f"messages of key {key!r} move to shard {state.directory.home(key)!r} "
                f"(directory of generation {state.generation})",
                "send again later; `pgsluice shards list` shows the move",
            )
        name = state.directory.home(key)
        found = (self._runner(name)).run(shards.shard())
        if found is not None:  # a new shard has none before the move begins there
            self._router.adopt(name, found)
        if self._router.state is state:
            time.sleep(jittered(_ASK_S))

    def _learn(self, name: str) -> None:
        """Ask a database for its directory."""
        self._router.adopt(name, (self._runner(name)).run(shards.shard()))

    def _runner(self, name: str) -> Runner:
        return Runner(self._pools.pool(name), is_traced=self._is_traced)


class Sharded:
    """A client on a connection, on a pool, or at the shards of keys."""

    def __init__(self, source: Connectable | ShardPool) -> None:
        self._runner: Runner | ShardRunner = (
            ShardRunner(source, source.router) if isinstance(source, ShardPool) else Runner(source)
        )

    def at(self, key: str) -> Self:
        """Return a client of the shard of a key, such as a tenant; for clients with a `ShardPool`.

        `send` and `send_batch` store the key in the header `x-pgmq-group`, and the database checks in the same
        statement that the key belongs there. If the directory of shards has changed, the client reads it and sends
        again; while messages of the key move, it waits for up to 30 seconds. Other methods run at the shard of the key
        by the directory that the client knows, and concern messages of all its keys.

        Args:
            key: The key. Messages with this key, and no others, move when the key does.

        Raises:
            ArgumentError: The client has a single database, or the key is not a text.
        """
        if not isinstance(self._runner, ShardRunner):
            raise ArgumentError("at() needs several databases; pass a ShardPool to the client")
        client = copy.copy(self)
        client._runner = self._runner.at(key)  # noqa: SLF001 - of the same class
        return client
