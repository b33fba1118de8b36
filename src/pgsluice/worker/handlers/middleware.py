"""Middleware: a chain of `async def` functions called around every handler. No I/O."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from pgsluice.errors import ArgumentError

# Takes the payload and the context, for a batch lists of both. Its result or exception becomes the outcome.
HandlerCall = Callable[[Any, Any], Awaitable[Any]]
# Takes the inner call, the payload and the context, and returns the result of the inner call or another one.
Middleware = Callable[[HandlerCall, Any, Any], Awaitable[Any]]


def around(middlewares: Sequence[Middleware], call: HandlerCall) -> HandlerCall:
    """Put middleware around a call; the first is outermost."""
    for middleware in reversed(middlewares):
        call = partial(middleware, call)
    return call


def check_middleware(function: Middleware) -> None:
    """Refuse a function that cannot be called around a handler.

    Raises:
        ArgumentError: It is not an `async def`, or does not take the three arguments.
    """
    name = getattr(function, "__qualname__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise ArgumentError(f"middleware {name} must be an `async def`")
    try:
        inspect.signature(function).bind("call", "payload", "context")
    except TypeError:
        raise ArgumentError(
            f"middleware {name} must take (call, payload, context), and return await call(payload, context)"
        ) from None
