"""Modules keep no state, except what a process has once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pgsluice"
CHANGES = {
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
}
STATEFUL = {
    "ContextVar",
    "Lock",
    "WeakKeyDictionary",
    "WeakSet",
    "WeakValueDictionary",
    "count",
    "local",
}

# Module and name, and why the process has it once.
ALLOWED = {
    ("spark/arrow_adbc.py", "_idle"): "connections that later tasks of an executor use again",
    ("spark/arrow_ingest.py", "_idle"): "connections that later tasks of an executor use again",
    ("spark/session.py", "_is_killed"): "the JVM of the process",
    ("spark/session.py", "_is_starting"): "the JVM of the process",
    ("spark/session.py", "_java"): "the JVM of the process",
    ("worker/engine/run/base_context.py", "_MAKING"): "a lock of attributes made once per class",
    ("worker/engine/connections/sessions.py", "_unhurried"): "a variable of the current task",
    (
        "worker/engine/run/process_pool.py",
        "_starting",
    ): "one child may inherit file descriptors at a time",
    ("worker/engine/run/threads.py", "_numbers"): "names of threads",
    ("worker/engine/run/time_limit.py", "_LOCK"): "raising an exception in another thread",
    ("worker/forks.py", "_loops"): "what a forked child must close",
    ("worker/forks.py", "_sockets"): "what a forked child must close",
}


def state_of(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module that functions change, or whose values are made to be changed."""
    names = set()
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if not isinstance(target, ast.Name):
            continue
        names.add(target.id)
        if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in STATEFUL:
            yield target.id
    for node in ast.walk(tree):
        match node:
            case ast.Global():
                yield from node.names
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
                if name in names and attr in CHANGES:
                    yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                if name in names:
                    yield name


def test_modules_have_no_state_but_that_of_the_process():
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name in state_of(ast.parse(path.read_text()))
    }

    assert found == set(ALLOWED)


def test_state_of_a_module_is_found():
    text = "a = {}\nb = []\nc = Lock()\nd = {}\ndef f():\n    a[1] = 2\n    b.append(1)\n    global e\n    d[1]"

    assert set(state_of(ast.parse(text))) == {"a", "b", "c", "e"}
