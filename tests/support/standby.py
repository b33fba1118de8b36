"""Standbys of a server, optionally synchronous, and their promotion."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psycopg

from pgsluice.embedded import EmbeddedServer
from support import value, wait_until
from support.epoch import run_as_owner

SYNCHRONOUS = "select count(*) from pg_stat_replication where sync_state = 'sync'"


def follow(primary: EmbeddedServer, standby: EmbeddedServer) -> None:
    """Start a synchronous standby in its folder; from then on the primary's commits wait for it."""
    folder = standby.data
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        owner = primary.data.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
    run_as_owner(
        primary,
        "pg_basebackup",
        *("--dbname", primary.url(), "--pgdata", str(folder)),
        *("--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"),
    )
    standby.start()
    with psycopg.connect(primary.url(), autocommit=True) as session:
        session.execute("alter system set synchronous_standby_names = '*'")
        session.execute("select pg_reload_conf()")
        wait_until(lambda: value(session, SYNCHRONOUS) == 1, "the standby to be synchronous")


def promote(primary: EmbeddedServer, standby: EmbeddedServer) -> None:
    """Stop the primary as in a crash, and promote the standby."""
    primary.stop("immediate")
    with psycopg.connect(standby.url(), autocommit=True) as session:
        assert value(session, "select pg_promote()") is True


def either(*servers: EmbeddedServer, **options: str) -> str:
    """Return a DSN with several servers."""
    parts = [psycopg.conninfo.conninfo_to_dict(server.url()) for server in servers]
    return psycopg.conninfo.make_conninfo(
        servers[0].url(),
        host=",".join(str(each["host"]) for each in parts),
        port=",".join(str(each["port"]) for each in parts),
        **options,
    )


def remove(*servers: EmbeddedServer) -> None:
    """Stop servers, and delete their folders."""
    for server in servers:
        server.stop("immediate")
        for folder in (server.data, Path(f"{server.data}.run")):
            shutil.rmtree(folder, ignore_errors=True)
