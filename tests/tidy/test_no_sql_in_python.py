"""SQL is in sql/ and in the calls, where it is read, reviewed and tested as SQL; nowhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pgsluice"
# Something that only SQL begins with: a verb, and what must or may follow it.
SQL = re.compile(
    r"""\s*(
        select\s+(\*|distinct\b|all\b|[\w.]+\s*(\(|,|::|\bfrom\b|\bas\b)|\d|%s|'|\$\d)
      | insert\s+into\b
      | update\s+(only\s+)?[\w."{%]+\s+(as\s+\w+\s+)?set\b
      | delete\s+from\b
      | truncate\s+(table\s+)?[\w."{%]+
      | with\s+(recursive\s+)?\w+\s+(\([^)]*\)\s+)?as\s+(not\s+)?(materialized\s+)?\(
      | (create|alter|drop|comment\s+on)\s+(or\s+replace\s+)?(unlogged\s+|temp(orary)?\s+|unique\s+)?
        (table|index|function|procedure|schema|role|user|database|view|materialized|type|trigger|sequence|extension|policy)\b
      | (grant|revoke)\s+[\w\s,()]+\s+(on|to|from)\b
      | set\s+(local|session|transaction|role|search_path|statement_timeout|[\w.]+\s*(=|\bto\b))
      | reset\s+(all|role|search_path)\b
      | (begin|start)\s+(isolation|transaction|read)\b | begin\s*;?\s*$ | (commit|rollback)\s*;?\s*$
      | lock\s+table\b | (listen|notify|vacuum|analyze)\s+[\w."]+\s*$ | copy\s+[\w."(]+.*\b(from|to)\b
      | do\s+\$ | call\s+[\w.]+\( | merge\s+into\b | values\s*\(
    )""",
    re.IGNORECASE | re.VERBOSE,
)

# What has to stand in Python all the same: file and beginning → why.
ALLOWED = {
    (
        "schema/texts.py",
        "do $grant$ begin",
    ): "the installer's guard around each grant of the SQL files",
    ("spark/upsert.py", "merge into delta."): "a statement of Spark's, for Delta's own jar",
}


def sql_strings(source):
    """Line numbers and texts of the string constants that begin like SQL; docstrings are prose."""
    tree = ast.parse(source)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in prose
        and SQL.match(node.value)
    ]


def test_no_string_outside_the_calls_begins_like_sql():
    found, used = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("client/calls/"):
            continue
        for line, text in sql_strings(path.read_text()):
            reasons = {key for key in ALLOWED if name == key[0] and text.startswith(key[1])}
            used |= reasons
            if not reasons:
                found.append(f"{name}:{line}: {text[:60]!r}")

    assert not found, "\n".join(found)
    assert used == ALLOWED.keys()


def test_the_calls_are_full_of_it():
    texts = [
        text
        for path in (SOURCE / "client" / "calls").glob("*.py")
        for text in sql_strings(path.read_text())
    ]

    assert len(texts) > 30


def test_sql_is_distinguished_from_prose():
    sql = [
        "select 1", "SELECT * FROM t", "select pgmq.send(%s)", "  \n select a, b from t", "insert into t values (1)",
        "update t set a = 1", "delete from t", "with x as (select 1) select * from x", "create table t ()",
        "create or replace function f()", "alter role x", "drop schema s cascade", "grant select on t to r",
        "set local synchronous_commit = off", "set transaction snapshot '1'", "set role none", "begin", "commit;",
        "begin isolation level serializable", "lock table t", "do $$ begin end $$", "truncate t", "select $1",
    ]  # fmt: skip
    prose = [
        "select one of these", "set by the installer", "with care", "update the lake", "create it with create('x')",
        "delete it", "grants are skipped", "drop it first", "begin with the first", "commits", "select", "set",
        "values", "copy the rows that the table does not hold yet", "call it again", "analyze this text well",
        "create the queue first", "with the other",
    ]  # fmt: skip

    assert [text for text in sql if not SQL.match(text)] == []
    assert [text for text in prose if SQL.match(text)] == []
