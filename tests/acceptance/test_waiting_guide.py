"""docs/guides/waiting.md: its blocks run in order, its loop survives lost connections, its statements are true."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from contextlib import contextmanager

import psycopg
import pytest

from pgsluice import Listener, ListenerState, WorkQueue
from support import value, wait_until
from support.pages import blocks_of, pages, run_blocks
from support.pooler import pooling

PAGE = next(page for page in pages("guides") if page.stem == "waiting")
LETTER = {"text": "a letter"}


@contextmanager
def maintaining(url):
    """Run `pgsluice maintain`."""
    command = [sys.executable, "-m", "pgsluice", "maintain", "--dsn", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_each_block_prints_what_is_shown(database_18, tmp_path):
    with maintaining(database_18.url):
        assert run_blocks(blocks_of(PAGE), tmp_path, {"PGSLUICE_DSN": database_18.url}) >= 4


@pytest.mark.slow
def test_the_loop_continues_after_its_connections_were_terminated(
    database_18, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    [text] = [block.text for block in blocks_of(PAGE) if block.text.startswith("# loop.py")]
    (tmp_path / "loop.py").write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("loop", tmp_path / "loop.py")
    loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loop)
    stop = threading.Event()
    thread = threading.Thread(target=loop.consume, args=(stop,))
    with database_18.connect() as connection:
        queue = WorkQueue(connection)
        queue.create("letters")

        def is_archived(count):
            return lambda: value(connection, "select count(*) from pgmq.a_letters") == count

        thread.start()
        try:
            queue.send("letters", "before")
            wait_until(is_archived(1), "the first letter")
            connection.execute(
                """select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid()
                     and backend_type = 'client backend'"""
            )
            queue.send("letters", "after")
            wait_until(is_archived(2), "the second letter")
        finally:
            stop.set()
            thread.join(30)

    assert not thread.is_alive()
    assert capsys.readouterr().out.split() == ["before", "after"]


def test_a_listener_does_not_receive_the_notifications_of_pgmq(database_18):
    with database_18.connect() as connection, Listener(database_18.url) as listener:
        queue = WorkQueue(connection)
        queue.create("letters")
        connection.execute("select pgmq.enable_notify_insert('letters', 0)")
        connection.execute('listen "pgmq.q_letters.INSERT"')
        with listener.subscribe("letters") as subscription:
            wait_until(lambda: listener.state is ListenerState.NO_NOTIFIER, "the listener")
            while subscription.wait(0.1):  # once for the subscription
                pass

            queue.send("letters", LETTER)

            assert len(list(connection.notifies(timeout=5, stop_after=1))) == 1
            assert not subscription.wait(0.5)


@pytest.mark.slow
def test_behind_a_pooler_a_listener_on_a_direct_connection_receives_notifications(
    database_18, servers_folder
):
    with (
        pooling(database_18.url, servers_folder) as pooled,
        maintaining(database_18.url),
        Listener(database_18.url) as direct,
        Listener(pooled) as behind,
        psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection,
    ):
        queue = WorkQueue(connection)
        queue.create("letters")
        with direct.subscribe("letters") as subscription, behind.subscribe("letters"):
            wait_until(lambda: direct.state is ListenerState.LISTENING, "the direct listener")
            wait_until(lambda: behind.state is ListenerState.POOLED, "the other listener")
            while subscription.wait(0.1) or not subscription.is_reliable:
                pass
            queue.send("letters", LETTER)

            assert subscription.wait(30)
            assert [message.message for message in queue.read("letters")] == [LETTER]
