"""Write `_sync` from `_async`, of the clients and of the workers: `python tools/sync_from_async.py [--check]`.

Word for word, so that the two cannot differ: what is written is async, what is committed beside it is generated.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "pgsluice"
FOLDERS = (PACKAGE / "client", PACKAGE / "worker" / "engine")
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
    (r"\basyncio\b", "threading"),
    (r"\basync_(?=pause|leased|attempt)", ""),
    (r'"""(The clients|Workers), written by hand.*?"""', r'"""\1, generated from `_async`."""'),
)
NOTE = (
    "# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.\n"
)


def synchronous(text: str) -> str:
    """Return the sync form of an async module."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    command = ["ruff", "--quiet"]
    ran = [sys.executable, "-m", *command]
    fixed = subprocess.run(
        [*ran, "check", "--fix", "--select", "I", "-"],
        input=NOTE + text,
        text=True,
        check=True,
        capture_output=True,
    ).stdout
    return subprocess.run(
        [*ran, "format", "-"], input=fixed, text=True, check=True, capture_output=True
    ).stdout


def main() -> int:
    """Write the files, or with --check say which ones are out of date."""
    stale = []
    for source in sorted(path for folder in FOLDERS for path in (folder / "_async").glob("*.py")):
        target = source.parent.parent / "_sync" / source.name
        wanted = synchronous(source.read_text(encoding="utf-8"))
        if target.exists() and target.read_text(encoding="utf-8") == wanted:
            continue
        stale.append(str(target.relative_to(PACKAGE)))
        if "--check" not in sys.argv:
            target.write_text(wanted, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"out of date: {', '.join(stale)}; run `make generate`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
