"""The cookbook: each page runs in a database of its own and prints what it shows."""

from __future__ import annotations

import hashlib
import re

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgsluice import WorkQueue
from support import wal_bytes
from support.pages import blocks_of, pages, run_blocks

PAGES = [pytest.param(page, id=page.stem) for page in pages("cookbook")]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_print_their_output(page, database_18, tmp_path):
    compared = run_blocks(blocks_of(page), tmp_path, {"PGSLUICE_DSN": database_18.url})

    assert compared, "the page shows no output"


@pytest.mark.slow
def test_message_over_the_limit_of_jsonb_is_refused(database_18):
    page = next(page for page in pages("cookbook") if page.stem == "large-payloads")
    [limit] = re.findall(r"at most ([\d,]+) bytes", page.read_text(encoding="utf-8"))
    send = "select pgmq.send('large', jsonb_build_object('a', repeat('x', %s)))"
    with database_18.connect() as connection:
        WorkQueue(connection).create("large")

        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=limit.replace(",", "")):
            connection.execute(send, [int(limit.replace(",", ""))])


def test_claim_does_not_write_a_large_payload_and_an_archive_does(database_18):
    """The relation of the WAL of each step in the table of the page on large payloads."""
    payload = Jsonb({"text": hashlib.shake_128(b"does not compress").hexdigest(50_000)})
    with database_18.connect() as connection:
        WorkQueue(connection).create("large")
        sent = wal_bytes(connection, "pgmq.send('large', %s)", payload)
        claimed = wal_bytes(connection, "pgmq.read('large', 30, 1)")
        archived = wal_bytes(connection, "pgmq.archive('large', 1)")
        WorkQueue(connection).send("large", payload.obj)
        deleted = wal_bytes(connection, "pgmq.delete('large', 2)")

    assert sent > 100_000
    assert archived > 100_000
    assert claimed < 20_000  # a first change of a page after a checkpoint writes the page
    assert deleted < 30_000
