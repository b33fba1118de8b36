"""Statements that create and drop databases, which a function cannot run."""

from __future__ import annotations

from psycopg import sql

from pgsluice.client.calls.call import Call, scalar


def create(name: str, template: str | None = None) -> sql.Composed:
    """Return the statement that creates a database, as a copy of a template without other sessions."""
    return sql.SQL("create database {} template {}").format(
        sql.Identifier(name), sql.Identifier(template or "template1")
    )


def count_sessions() -> Call[int]:
    return Call(
        "select count(*) from pg_catalog.pg_stat_activity "
        "where backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()",
        (),
        scalar,
    )


def drop(name: str) -> sql.Composed:
    """Return the statement that drops a database and terminates its sessions."""
    return sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
