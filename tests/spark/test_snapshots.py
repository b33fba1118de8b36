"""Snapshots of tables when one table has damaged data."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import psycopg

from pgsluice.pipelines.current_state.snapshot import Snapshots
from pgsluice.spark.access import access_for
from support import rows
from support.servers import Database


def damage(connection: psycopg.Connection, table: str) -> None:
    """Delete the values of a table that are stored out of line."""
    toast = "(select reltoastrelid from pg_class where oid = %s::regclass)"
    connection.execute("set allow_system_table_mods = on")
    for kind in ("r", "t"):
        connection.execute(
            f"update pg_class set relkind = '{kind}' where oid = {toast}",  # type: ignore[arg-type]
            (table,),
        )
        if kind == "r":
            ((name,),) = rows(connection, f"select {toast}::regclass::text", table)
            connection.execute(f"delete from {name}")
            # Until then, deleted values are still read by rows that name them.
            connection.execute(f"vacuum {name}")


def test_damaged_table_fails_alone(database_18: Database, tmp_path: Path):
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('changes')")
        for name in ("bad", "good"):
            connection.execute(f"create table {name} (id int primary key, v text)")  # type: ignore[arg-type]
            connection.execute(f"alter table {name} alter v set storage external")  # type: ignore[arg-type]
            connection.execute(f"insert into {name} values (1, repeat('x', 10000))")  # type: ignore[arg-type]
            connection.execute("select sluice.capture(%s, 'changes')", (name,))
        damage(connection, "bad")
        snapshots = Snapshots(["bad", "good"], "changes", tmp_path)

        with ExitStack() as cleanup:
            snapshots.take(access_for(database_18.url, cleanup), threading.Event())

        assert snapshots.pending() == ["bad"] == list(snapshots.failures)
        assert "toast value" in str(snapshots.failures["bad"])
        assert snapshots.is_taken()
        assert rows(connection, "select ev_extra1 from pgq.event_1 where ev_type = 'r'") == [
            ("public.good",)
        ]
