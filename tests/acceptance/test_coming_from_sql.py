"""Pages for users of PGMQ, PgQ and tables of their own: each block runs, and prints what is shown."""

from __future__ import annotations

import itertools
import threading
from typing import Self

import psycopg
import pytest
from psycopg import conninfo

from support import rows, wait_until
from support.pages import blocks_of, pages, run_blocks
from support.pgmq import upstream_sql
from support.pgq import plpgsql_text

PAGES = {page.stem: page for page in pages("coming-from")}
VARIABLES_OF_PGMQ = {
    "PG_HOST": "host",
    "PG_PORT": "port",
    "PG_DATABASE": "dbname",
    "PG_USERNAME": "user",
}


def scripts_of(page: str) -> list[str]:
    """Return the blocks of SQL of a page."""
    return [block.text for block in blocks_of(PAGES[page]) if block.kind == "sql"]


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
    assert run_blocks(blocks_of(PAGES[page]), tmp_path, {"PGSLUICE_DSN": owner_url}) >= 1


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

    server = conninfo.conninfo_to_dict(empty_database.url)
    variables = {name: str(server.get(part, "")) for name, part in VARIABLES_OF_PGMQ.items()}
    variables["PGSLUICE_DSN"] = empty_database.url

    assert run_blocks(blocks_of(PAGES[page]), tmp_path, variables) >= 3


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
    scripts = scripts_of(page)
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


@pytest.mark.slow
def test_after_the_migration_a_sender_needs_the_role_sluice_writer_only(database, role):
    inserts = {
        "job": "insert into job (address) values ('ada')",
        "alert": "insert into alert (body) values ('disk full')",
        "task": "insert into task (payload) values ('1')",
        "event": "insert into event (topic, payload) values ('orders', '1')",
    }
    with database.connect() as connection:
        for page in ("own-table", "own-notify", "own-event-table"):
            for script in scripts_of(page):
                if "create table" in script or "lock table" in script:
                    connection.execute(script)
        connection.execute(f"grant sluice_writer to {role}")
        for table, insert in inserts.items():
            connection.execute(f"grant insert on {table} to {role}")
            connection.execute(f"set role {role}")
            assert connection.execute(insert).rowcount == (table in {"job", "alert"})
            connection.execute("reset role")
        connection.execute(f"drop owned by {role} cascade")


def test_a_failed_check_leaves_the_table_as_it_was(database_18):
    scripts = scripts_of("own-table")
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
