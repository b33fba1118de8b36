"""Middleware: chains of functions called around handlers. No I/O."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from pgsluice.errors import ArgumentError

# Takes the payload and the context, for a batch lists of both. Its result or exception becomes the outcome.
HandlerCall = Callable[[Any, Any], Awaitable[Any]]
ThreadCall = Callable[[Any, Any], Any]
# Takes the inner call, the payload and the context, and returns the result of the inner call or another one.
AsyncMiddleware = Callable[[HandlerCall, Any, Any], Awaitable[Any]]
ThreadMiddleware = Callable[[ThreadCall, Any, Any], Any]
Middleware = AsyncMiddleware | ThreadMiddleware


def around(middlewares: Iterable[Middleware], call: HandlerCall) -> HandlerCall:
    """Put the `async def` middleware around a call; the first is outermost."""
    return _around([each for each in middlewares if _is_async(each)], call)


def around_in_thread(middlewares: Iterable[Middleware], call: ThreadCall) -> ThreadCall:
    """Put the `def` middleware around the call of a `def` handler, in its thread or process; the first is outermost."""
    return _around([each for each in middlewares if not _is_async(each)], call)


def close_in_thread(middlewares: Iterable[Middleware]) -> None:
    """Close the `def` middleware that has a method `close`, at the end of a thread of handlers."""
    for each in middlewares:
        if not _is_async(each) and (close := getattr(each, "close", None)) is not None:
            close()


async def close(middlewares: Iterable[Middleware]) -> None:
    """Close the `async def` middleware that has a method `close`, when the worker stops."""
    for each in middlewares:
        if _is_async(each) and (close := getattr(each, "close", None)) is not None:
            await close()


def check_middleware(function: Middleware) -> None:
    """Refuse a function that cannot be called around a handler.

    Raises:
        ArgumentError: It does not take the three arguments.
    """
    name = getattr(function, "__qualname__", repr(function))
    try:
        inspect.signature(function).bind("call", "payload", "context")
    except TypeError:
        awaited = "await " * _is_async(function)
        raise ArgumentError(
            f"middleware {name} must take (call, payload, context), and return {awaited}call(payload, context)"
        ) from None


def _around(middlewares: list[Any], call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    for middleware in reversed(middlewares):
        call = partial(middleware, call)
    return call


def _is_async(function: Middleware) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an asynchronous method
    )
