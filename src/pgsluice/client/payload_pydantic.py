"""Payload types validated by Pydantic, which only this module imports, on demand. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pgsluice.errors import ArgumentError, PayloadError


def pydantic_converts(
    annotation: Any, name: str
) -> tuple[Callable[[Any, str], Any], Callable[[Any, str], Any]]:
    """Return the conversions to and from JSON; both take a value and its path.

    Args:
        annotation: Any type that Pydantic can validate.
        name: Display name, for errors.

    Raises:
        ArgumentError: Pydantic is not installed, or does not support the type.
    """
    try:
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUserError
        from pydantic_core import PydanticSerializationError
    except ImportError:
        raise ArgumentError(
            f"{name} cannot be a payload; use dict, list, str, int, float, bool, None, a dataclass or a TypedDict of "
            "them, or install pydantic"
        ) from None
    try:
        adapter = TypeAdapter[Any](annotation)
    except (PydanticUserError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise ArgumentError(f"{name} cannot be a payload: {reason}") from error

    def validated(text: str | bytes, path: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            raise PayloadError(_reason(error, path)) from error

    def to_json(value: Any, path: str) -> Any:
        try:
            text = adapter.dump_json(value, by_alias=True, warnings=False)
        except PydanticSerializationError as error:
            raise PayloadError(
                f"{path} is of type {type(value).__name__}; it must be {name}"
            ) from error
        # Pydantic does not revalidate a mutated model or one built without validation; the receiver would.
        validated(text, path)
        return json.loads(text)

    def from_json(payload: Any, path: str) -> Any:
        # Via JSON, because strict models accept dates as text only there.
        return validated(json.dumps(payload), path)

    return to_json, from_json


def _reason(error: Any, path: str) -> str:
    shown_max = 5
    found = error.errors(include_url=False, include_context=False, include_input=False)
    reasons = [
        f"{path}{''.join(f'[{part}]' if isinstance(part, int) else f'.{part}' for part in each['loc'])}: {each['msg']}"
        for each in found[:shown_max]
    ]
    more = len(found) - shown_max
    return "; ".join(reasons) + (f"; and {more} more" if more > 0 else "")
