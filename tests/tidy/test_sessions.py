"""Every session is opened with our settings: `pgsluice.sessions` for psycopg, `spark/adbc_connection.py` for ADBC."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pgsluice.sessions import AsyncSluiceConnection, SluiceConnection
from pgsluice.worker.engine.connections._async.lent import AsyncLentConnection
from pgsluice.worker.engine.connections._sync.lent import LentConnection
from pgsluice.worker.engine.connections.sessions import EngineConnection

SOURCE = Path(__file__).parents[2] / "src" / "pgsluice"
OPENS = re.compile(
    r"^(?!\s*hint).*(psycopg|\b(Async)?Connection|dbapi)\.connect\((?!\))", re.MULTILINE
)
POOL = re.compile(r"ConnectionPool(?:\[\w+\])?\(\s*[\w.]+,\s*([\w=]+)?")


def test_no_other_module_opens_a_connection_of_a_driver():
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if OPENS.search(path.read_text())
    }
    assert found == {"spark/adbc_connection.py"}


def test_every_pool_opens_connections_with_our_settings():
    pools = {
        str(path.relative_to(SOURCE)): found[1]
        for path in SOURCE.rglob("*.py")
        for found in POOL.finditer(path.read_text())
    }
    assert len(pools) >= 6
    wanted = {"connection_class"}
    assert {str(kind).partition("=")[0] for kind in pools.values()} == wanted, pools
    assert issubclass(EngineConnection, AsyncSluiceConnection)
    assert issubclass(AsyncLentConnection, AsyncSluiceConnection)
    assert issubclass(LentConnection, SluiceConnection)


def test_sql_is_ascii_so_that_it_installs_into_a_database_of_any_encoding():
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()[:80]}"
        for path in (SOURCE / "sql").rglob("*.sql")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not line.isascii()
    ]
    # Docstrings of calls are not sent.
    for path in (SOURCE / "client" / "calls").glob("*.py"):
        tree = ast.parse(path.read_text())
        prose = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        found += [
            f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value[:80]}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not node.value.isascii()
            and id(node) not in prose
        ]
    assert found == []


LITERAL = re.compile(r"(--[^\n]*|/\*.*?\*/)|([eE]?)'((?:[^']|'')*)'", re.DOTALL)


def test_literal_with_a_backslash_means_the_same_without_standard_conforming_strings():
    found = [
        f"{path.relative_to(SOURCE)}: {literal[0]}"
        for path in (SOURCE / "sql").rglob("*.sql")
        if not {"migrations", "tables"} & set(path.parts)
        for literal in LITERAL.finditer(path.read_text())
        # Statements in a literal of several lines have literals of their own.
        if not literal[2] and "\\" in (literal[3] or "") and "\n" not in literal[3]
    ]
    assert found == []
