"""What a process does before its worker begins, wherever it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import psycopg

from pgsluice.client import AsyncSchedules
from pgsluice.connection import Target
from pgsluice.errors import PrivilegeError, translate
from pgsluice.settings import Settings
from pgsluice.worker.engine import start_checks
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.upkeep.schedules import declare_schedules

if TYPE_CHECKING:
    from pgsluice.worker.app.app import App

_log = logging.getLogger(__name__)


async def begin(
    app: App, specs: Iterable[HandlerSpec], target: Target, *, connections: int
) -> dict[str, Any]:
    """Look whether handlers can be run, and write what the app declares.

    Args:
        app: Whose handlers.
        specs: The handlers.
        target: Where to connect.
        connections: The most connections that they may use.

    Returns:
        The options that connections need here, as `psycopg.connect` takes them.

    Raises:
        ConnectionFailedError: The server is away; to be called again.
        SluiceError: What waiting does not mend.
    """
    checking = run_in_thread("pgsluice start", start_checks.require, target, specs, connections)
    options = await asyncio.wrap_future(checking)
    if app.schedules:
        await _declare(app, target)
    return options


async def _declare(app: App, target: Target) -> None:
    try:
        connection = await psycopg.AsyncConnection.connect(
            target.conninfo,
            autocommit=True,
            connect_timeout=Settings.load().connect_timeout_s,
            **start_checks.UNKNOWN,
        )
    except psycopg.Error as error:
        raise translate(error) from error
    async with connection:
        try:
            await declare_schedules(AsyncSchedules(connection), app.name, app.schedules.values())
        except PrivilegeError as error:
            _log.warning(
                "schedules of app %s are not written, as this role may not: %s", app.name, error
            )
