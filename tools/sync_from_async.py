"""Generate `_sync` from `_async`, for the clients and the workers: `python tools/sync_from_async.py [--check]`.

The code is written async and translated token by token, so that the two forms cannot differ.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from installed import write_or_check

PACKAGE = Path(__file__).parent.parent / "src" / "pgsluice"
FOLDERS = (
    PACKAGE / "client",
    *(PACKAGE / "worker" / "engine" / room for room in ("connections", "consume", "run")),
)
WORDS = (
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basync (?=def|with|for)", ""),
    (r"\bawait ", ""),
    (r"\b_async\b", "_sync"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\baclosing\b", "closing"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\bcontextmanager, contextmanager\b", "contextmanager"),
    (r"\bAwaitable, ", ""),
    (r"\bAwaitable\[([^\[\]]*)\]", r"\1"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basyncio\b", "threading"),
    (r"\basync_(?=pause|leased|attempt|adapter|pool)", ""),
    (r"\brequire_async_source\b", "require_source"),
    (r'"""Workers, written by hand.*?"""', r'"""Workers, generated from `_async`."""'),
    (r"; the runner is written by hand", ""),
)
NOTE = (
    "# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.\n"
)


def synchronous(text: str) -> str:
    """Return the sync form of an async module's source."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return formatted(text if text.startswith("# Generated") else NOTE + text)


def formatted(text: str) -> str:
    """Return a module formatted as `make check` requires, without unused imports."""
    for command in (["check", "--fix", "--select", "I,F401,TC005"], ["format"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", "--quiet", *command, "-"],
            input=text,
            text=True,
            check=True,
            capture_output=True,
        ).stdout
    return text


def main() -> int:
    """Write the files, or with --check list outdated ones."""
    modules = {
        source.parent.parent / "_sync" / source.name: synchronous(
            source.read_text(encoding="utf-8")
        )
        for folder in FOLDERS
        for source in sorted((folder / "_async").glob("*.py"))
    }
    return write_or_check(modules, check="--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
