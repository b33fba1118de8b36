"""Startup of a worker: preflight checks and declared schedules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection

from pgsluice.client import AsyncSchedules
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.connection import Target
from pgsluice.errors import PrivilegeError, translate
from pgsluice.sessions import AsyncSluiceConnection
from pgsluice.settings import Settings
from pgsluice.worker.engine.claim import start_checks
from pgsluice.worker.engine.claim.declared_limits import create_sources
from pgsluice.worker.engine.flow.options import Application
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.upkeep.schedules import ScheduleSpec, declare_schedules

_log = logging.getLogger(__name__)


class ScheduledApplication(Application, Protocol):
    """App interface that the start of a worker needs."""

    schedules: dict[str, ScheduleSpec]

    async def aclose(self) -> None:
        """Close the connections of `send_async` in this event loop."""


async def start_up(
    app: ScheduledApplication,
    specs: Iterable[HandlerSpec],
    target: Target,
    *,
    connections: int,
    creates: bool = False,
    owns: Callable[[ScheduleSpec], bool] = lambda _: True,
) -> dict[str, Any]:
    """Run preflight checks, store the schedules that the app declares, and pause those that it no longer declares.

    Args:
        app: The app.
        specs: The handlers.
        target: The server.
        connections: Maximum connections of the process.
        creates: Create the queues and logs that do not exist.
        owns: Returns True for the schedules of the app that this database fires.

    Returns:
        Options for connections to this server, as for `psycopg.connect`.

    Raises:
        ConnectionFailedError: The server is unreachable; retry.
        SluiceError: A permanent error.
    """
    if creates:
        async with await connected(target) as connection:
            await AsyncRunner(connection).run_steps(create_sources(specs))
    checking = run_in_thread("pgsluice start", start_checks.require, target, specs, connections)
    options = await asyncio.wrap_future(checking)
    await store_schedules(app, target, owns)
    return options


async def store_schedules(
    app: ScheduledApplication,
    target: Target,
    owns: Callable[[ScheduleSpec], bool] = lambda _: True,
) -> None:
    """Store the schedules that the app declares, and pause those that it no longer declares.

    Without the privilege it logs a warning and stores nothing.

    Args:
        app: The app.
        target: The server.
        owns: As for `start_up`.

    Raises:
        ConnectionFailedError: The server is unreachable; retry.
        SluiceError: A permanent error, such as a queue of a schedule that does not exist.
    """
    declared = [spec for spec in app.schedules.values() if owns(spec)]
    async with await connected(target) as connection:
        try:
            await declare_schedules(AsyncSchedules(connection), app.name, declared)
        except PrivilegeError as error:
            _log.log(
                logging.WARNING if app.schedules else logging.DEBUG,
                *(
                    'schedules not stored app=%s reason="missing privilege" error="%s"',
                    app.name,
                    error,
                ),
            )


async def connected(target: Target) -> AsyncConnection[Any]:
    """Open a connection for the start of a worker.

    Raises:
        ConnectionFailedError: The server is unreachable; retry.
    """
    try:
        return await AsyncSluiceConnection.connect(
            target.conninfo,
            autocommit=True,
            connect_timeout=Settings.load().connect_timeout_s,
            **start_checks.UNKNOWN,
        )
    except psycopg.Error as error:
        raise translate(error) from error
