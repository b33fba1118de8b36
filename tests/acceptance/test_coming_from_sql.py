"""Pages for users of PGMQ, PgQ and tables of their own: each block runs, and prints what is shown."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import psycopg
import pytest
from psycopg import conninfo

from support import rows, wait_until
from support.pgmq import upstream_sql
from support.pgq import plpgsql_text

PAGES = Path(__file__).parents[2] / "docs" / "coming-from"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
VARIABLES_OF_PGMQ = {
    "PG_HOST": "host",
    "PG_PORT": "port",
    "PG_DATABASE": "dbname",
    "PG_USERNAME": "user",
}
NUMBERS = {20, 21, 23, 1700}  # types that psql aligns to the right: integers and numeric


def as_psql(cursor: psycopg.Cursor) -> str:
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
    is_number = [result.ftype(column) in NUMBERS for column in columns]
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


class Page:
    """Runs the blocks of a page in order, in one folder and one database; of SQL the last result is shown."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self.blocks = BLOCK.findall((PAGES / f"{name}.md").read_text(encoding="utf-8"))
        self._url = url
        self._folder = folder
        self._environ = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith("PG") and name != "DATABASE_URL"
        } | {"PGSLUICE_DSN": url}
        parts = conninfo.conninfo_to_dict(url)
        for variable, part in VARIABLES_OF_PGMQ.items():
            self._environ[variable] = str(parts.get(part, ""))

    def run(self) -> int:
        """Run all blocks, and compare what each prints with the block `text` after it."""
        shown = 0
        for (kind, block), (next_kind, text) in itertools.pairwise([*self.blocks, ("", "")]):
            if kind == "text":
                continue
            printed = getattr(self, f"_run_{kind}")(block)
            if next_kind == "text" or kind == "python":
                assert lines(printed) == lines(text if next_kind == "text" else ""), block
                shown += 1
        return shown

    def _run_sql(self, block: str) -> str:
        printed = ""
        with psycopg.connect(self._url, autocommit=True) as connection:
            for statement in statements(block):
                printed = as_psql(connection.execute(statement))
        return printed

    def _run_python(self, block: str) -> str:
        if name := FILE.match(block):
            (self._folder / name[1]).write_text(block, encoding="utf-8")
            return ""
        return self._call("-c", block)

    def _run_bash(self, block: str) -> str:
        printed = ""
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            start = {"pgsluice": ["-m", "pgsluice"], "python": []}[program]
            printed += self._call(*start, *arguments)
        return printed

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=self._environ, cwd=self._folder,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def statements(script: str) -> list[str]:
    """Return the statements of a script, which psql sends one by one."""
    parts = re.findall(r"\$\$.*?\$\$|'[^']*'|--[^\n]*|;|.", script, re.DOTALL)
    text = "".join("\0" if part == ";" else part for part in parts)
    return [statement for statement in text.split("\0") if statement.strip()]


def lines(text: str) -> list[str]:
    """Return the lines without the spaces at their ends, which psql prints and a page does not."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.fixture
def owner_url(database, role):
    """URL of a role that may create tables in schema public, and has the role `sluice_admin`."""
    with database.connect() as connection:
        connection.execute(f"grant sluice_admin to {role}; grant create on schema public to {role}")
        yield conninfo.make_conninfo(database.url, user=role)
        connection.execute(f"drop owned by {role} cascade")


@pytest.mark.slow
@pytest.mark.parametrize("page", ["own-event-table", "own-notify", "own-table"])
def test_an_owner_of_a_table_runs_each_block_as_shown(owner_url, tmp_path, page):
    assert Page(page, owner_url, tmp_path).run() >= 1


class Senders:
    """Threads that insert rows, each in a transaction, until they are stopped."""

    def __init__(self, url: str, statement: str) -> None:
        self.sent: list[str] = []  # and committed
        self._url, self._statement = url, statement
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(2)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def wait_for_more(self) -> None:
        """Wait until each thread has sent again."""
        before = len(self.sent)
        wait_until(lambda: len(self.sent) > before + 20, "rows of the senders")

    def _send(self, number: int) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for count in itertools.count():
                if self._stop.is_set():
                    return
                name = f"sender {number} row {count}"
                connection.execute(self._statement, [name])
                self.sent.append(name)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "peer"), [("pgmq", upstream_sql), ("pgq", plpgsql_text)])
def test_a_database_of_a_peer_is_migrated_as_shown(empty_database, tmp_path, page, peer):
    with empty_database.connect() as connection:
        connection.execute(peer())

    assert Page(page, empty_database.url, tmp_path).run() >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "table", "insert", "arrived"),
    [
        (
            "own-table", "job", "insert into job (address) values (%s)",
            """select job.address from pgmq.q_jobs as m
               join job on job.id = (m.message ->> 'id')::bigint""",
        ),
        (
            "own-table", "task", "insert into task (payload) values (to_jsonb(%s::text))",
            "select message #>> '{}' from pgmq.q_tasks",
        ),
        (
            "own-notify", "alert", "insert into alert (body) values (%s)",
            "select message ->> 'body' from pgmq.q_alerts",
        ),
        (
            "own-event-table", "event",
            "insert into event (topic, payload) values ('orders', to_jsonb(%s::text))",
            """select ev_data::jsonb #>> '{}' from pgq.event_template where ev_owner is null
               or ev_owner = (select g.owner from sluice.share_group as g
                              join pgq.queue as q on q.queue_id = g.queue_id
                              where q.queue_name = 'orders' and g.group_name = 'billing')""",
        ),
    ],
)  # fmt: skip
def test_a_migration_moves_each_row_once_while_senders_insert(
    database_18, page, table, insert, arrived
):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    scripts = [block for kind, block in BLOCK.findall(text) if kind == "sql"]
    [made] = [script for script in scripts if f"create table {table} " in script]
    [migration] = [script for script in scripts if f"lock table {table}" in script]
    with database_18.connect() as connection:
        connection.execute(made)
        with Senders(database_18.url, insert) as senders:
            senders.wait_for_more()
            connection.execute(migration)
            senders.wait_for_more()

        names = [name for (name,) in rows(connection, arrived) if name.startswith("sender ")]
    assert sorted(names) == sorted(senders.sent)


def test_a_failed_check_leaves_the_table_as_it_was(database_18):
    text = (PAGES / "own-table.md").read_text(encoding="utf-8")
    scripts = [block for kind, block in BLOCK.findall(text) if kind == "sql"]
    [migration] = [script for script in scripts if "lock table job" in script]
    with database_18.connect() as connection:
        connection.execute(scripts[0])
        before = rows(connection, "select * from job order by id")
        doubled = migration.replace(
            "do $$\n", "select pgmq.send('jobs', '{\"id\": 3}');\ndo $$\n", 1
        )

        with pytest.raises(psycopg.errors.AssertFailure):
            connection.execute(doubled)
        connection.execute("rollback")

        assert rows(connection, "select * from job order by id") == before
        assert rows(connection, "select queue_name from pgmq.list_queues()") == []
