"""Scripts of SQL as psql runs them, with the last result as psql prints it."""

from __future__ import annotations

import re

import psycopg

_NUMBERS = {20, 21, 23, 1700}  # types that psql aligns to the right: integers and numeric


def _as_psql(cursor: psycopg.Cursor) -> str:
    """Return the result of a statement as psql prints it."""
    result = cursor.pgresult
    if result is None or not result.nfields:
        return ""
    columns = range(result.nfields)
    names = [(result.fname(column) or b"").decode() for column in columns]
    cells = [
        [(result.get_value(row, column) or b"").decode() for column in columns]
        for row in range(result.ntuples)
    ]
    widths = [max(map(len, of_column)) for of_column in zip(names, *cells, strict=True)]
    is_number = [result.ftype(column) in _NUMBERS for column in columns]
    titles = [
        f"{' ' * ((width - len(name)) // 2)}{name}".ljust(width)
        for name, width in zip(names, widths, strict=True)
    ]
    printed = [titles, *(
        [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        for line in cells
    )]  # fmt: skip
    rows = [" " + " | ".join(line) for line in printed]
    rows.insert(1, "-" + "-+-".join("-" * width for width in widths) + "-")
    return "\n".join([*rows, f"({len(cells)} row{'' if len(cells) == 1 else 's'})"])


def run_script(url: str, script: str) -> str:
    """Run the statements of a script one by one; return the result of the last one, without spaces at the ends of lines."""
    printed = ""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _statements(script):
            printed = _as_psql(connection.execute(statement))
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def _statements(script: str) -> list[str]:
    """Return the statements of a script, which psql sends one by one."""
    parts = re.findall(r"\$\$.*?\$\$|'[^']*'|--[^\n]*|;|.", script, re.DOTALL)
    text = "".join("\0" if part == ";" else part for part in parts)
    return [statement for statement in text.split("\0") if statement.strip()]
