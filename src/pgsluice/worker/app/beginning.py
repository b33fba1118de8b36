"""What a process does before its worker begins, wherever it runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from pgsluice.client import AsyncSchedules
from pgsluice.connection import Target
from pgsluice.errors import PrivilegeError, translate
from pgsluice.settings import Settings
from pgsluice.worker.engine import start_checks
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.loops import call_soon
from pgsluice.worker.upkeep.schedules import declare_schedules

if TYPE_CHECKING:
    from pgsluice.worker.app.app import App

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


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
    options = await _in_thread(lambda: start_checks.require(target, specs, connections))
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


async def _in_thread(step: Callable[[], Result]) -> Result:
    """Run it in a thread that keeps nothing from ending: an attempt to connect may take long."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # of a step that has not failed
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            result = step()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            failure = error
            call_soon(loop, lambda: settle(None, failure))
        else:
            call_soon(loop, lambda: settle(result, None))

    threading.Thread(target=run, name="pgsluice start", daemon=True).start()
    return await future
