"""Statements that make databases and drop them, which no function can."""

from __future__ import annotations

from psycopg import sql

from pgsluice.client.calls.call import Call, scalar


def create(name: str, template: str | None = None) -> sql.Composed:
    """Make a database; with a template a copy of it, to which nobody may be connected."""
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
    """Drop a database, and end the sessions in it."""
    return sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
