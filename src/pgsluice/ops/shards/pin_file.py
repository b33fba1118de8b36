"""Change one pin in the file of shards, and keep the rest of its text."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError


def set_pin(path: Path, key: str, shard: str | None) -> bool:
    """Pin a key in the file, or remove its pin; the file is replaced in one step.

    Args:
        path: The file.
        key: The key.
        shard: The shard; None: no pin.

    Returns:
        False if the file said so already.

    Raises:
        ConfigurationError: The file has its pins in a form that cannot be edited.
    """
    text = path.read_text(encoding="utf-8")
    content = tomllib.loads(text)
    chosen = {one: name for one, name in content.get("pins", {}).items() if one != key}
    if shard is not None:
        chosen[key] = shard
    if content.get("pins", {}) == chosen:
        return False
    edited = _edited(text, key, shard)
    if _pins(edited) != chosen or _without_pins(edited) != _without_pins(text):
        line = "" if shard is None else f": {_line(key, shard)}"
        raise ConfigurationError(
            f"the pins of {path} cannot be edited; write them as lines below [pins], with the pin of {key!r}{line}"
        )
    _replace(path, edited)
    return True


def _line(key: str, shard: str) -> str:
    # The escapes of JSON are those of TOML.
    return f"{json.dumps(key, ensure_ascii=False).replace(chr(127), chr(92) + 'u007F')} = {json.dumps(shard)}"


def _edited(text: str, key: str, shard: str | None) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    start = next((n for n, line in enumerate(lines) if _header(line) == "[pins]"), None)
    if start is None:
        lines += ["\n", "[pins]\n"]
        start = len(lines) - 1
    end = next((n for n in range(start + 1, len(lines)) if _header(lines[n])), len(lines))
    kept = [line for line in lines[start + 1 : end] if _pins(f"[pins]\n{line}").keys() != {key}]
    while kept and not kept[-1].strip():
        kept.pop()
    if shard is not None:
        kept.append(f"{_line(key, shard)}\n")
    if end < len(lines):
        kept.append("\n")
    return "".join([*lines[: start + 1], *kept, *lines[end:]])


def _header(line: str) -> str:
    """Return the header of a table without comment and spaces; an empty text for another line."""
    bare = line.partition("#")[0]
    return "".join(bare.split()) if bare.lstrip().startswith("[") else ""


def _pins(text: str) -> dict[str, Any]:
    try:
        pins = tomllib.loads(text).get("pins", {})
    except ValueError:
        return {}
    return pins if isinstance(pins, dict) else {}


def _without_pins(text: str) -> dict[str, Any] | None:
    try:
        return {name: value for name, value in tomllib.loads(text).items() if name != "pins"}
    except ValueError:
        return None


def _replace(path: Path, text: str) -> None:
    path = path.resolve()  # a link stays a link
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
