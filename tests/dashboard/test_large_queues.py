"""Pages of queues over large tables: none reads a whole table."""

from __future__ import annotations

import time
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from pgsluice.dashboard import app
from support import rows, wait_until
from support.servers import Database

LOCAL = {"base_url": "http://localhost", "client": ("127.0.0.1", 50_000)}
PAGES = (
    ("/queue", {"name": "orders"}),
    ("/messages", {"queue": "orders"}),
    ("/messages", {"queue": "orders", "order": "oldest"}),
    ("/messages", {"queue": "orders", "after": "100000"}),
    ("/messages", {"queue": "orders", "state": "visible"}),
    ("/messages", {"queue": "orders", "state": "in flight"}),
    ("/messages", {"queue": "orders", "state": "delayed"}),
    ("/messages", {"queue": "orders", "state": "archived"}),
    ("/messages", {"queue": "orders", "msg_id": "150000"}),
    ("/messages", {"queue": "orders", "key": "none"}),
    ("/messages", {"queue": "orders", "matching": '{"n": -1}'}),
    ("/messages", {"queue": "orders", "matching": "nowhere"}),
    ("/messages", {"queue": "orders", "matching": "nowhere", "after": "200000"}),
    ("/messages", {"queue": "orders", "state": "dead", "matching": "nowhere"}),
    ("/dead-letters", {"queue": "orders", "matching": "nowhere"}),
    ("/dead-letters", {"queue": "orders", "consumer": "mailer", "matching": '{"n": 1}'}),
    ("/search", {"text": "nowhere"}),
    ("/search", {"text": "150000"}),
    ("/messages", {"queue": "orders", "since": "2026-01-01T20:00", "until": "2026-01-01T20:10"}),
    (
        "/messages",
        {"queue": "orders", "state": "archived", "since": "2026-01-01T20:00"},
    ),
    ("/message", {"queue": "orders", "msg_id": "150000"}),
    ("/message", {"queue": "orders", "msg_id": "250000"}),
    ("/dead-letters", {"queue": "orders"}),
    ("/dead-letters", {"queue": "orders", "before": "30000"}),
    ("/dead-letters", {"queue": "orders", "error_type": "Missing"}),
    ("/dead-letters", {"queue": "orders", "dead_letter_id": "30000"}),
    ("/group", {"log": "orders", "group": "mailer"}),
    ("/dead-letters", {"queue": "orders", "consumer": "mailer"}),
    ("/dead-letters", {"queue": "orders", "consumer": "mailer", "before": "90000"}),
    ("/dead-letters", {"queue": "orders", "consumer": "mailer", "error_type": "Missing"}),
    ("/dead-letters", {"queue": "orders", "consumer": "mailer", "dead_letter_id": "90000"}),
)


@pytest.mark.slow
def test_no_page_reads_a_whole_table(database_18: Database, connection, work):
    work.create("orders")
    for table, first in (("q_orders", 1), ("a_orders", 200_001)):
        connection.execute(
            f"insert into pgmq.{table} (msg_id, vt, read_ct, last_read_at, enqueued_at, message) "
            + ("overriding system value " if table == "q_orders" else "")
            + "select n + %s - 1, case when n %% 100 = 0 then now() + interval '1 hour' else '2026-01-01 00:00+00' end, n %% 2, "
            "case when n %% 2 = 0 then now() end, '2026-01-01 00:00+00'::timestamptz + make_interval(secs => n), "
            "jsonb_build_object('n', n) from generate_series(1, 200000) as n",
            (first,),
        )
    connection.execute("select setval('pgmq.q_orders_msg_id_seq', 400000)")
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason, error_type, error) "
        "select 'orders', n, 5, now(), '1', 'too many attempts', 'KeyError', 'row ' || n from generate_series(1, 60000) as n"
    )
    connection.execute("select pgq.create_queue('orders'), sluice.create_group('orders', 'mailer')")
    connection.execute(
        "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, ev_txid, ev_type, ev_data, "
        "reason, error) select 'orders', 'mailer', n, 5, now(), '3', 't', '1', 'too many attempts', 'KeyError: row ' || n "
        "from generate_series(1, 60000) as n"
    )
    connection.execute("analyze")
    with TestClient(app(database_18.url), **LOCAL) as client:
        for path, query in PAGES:
            began_s = time.monotonic()
            answer = client.get(f"{path}?{urlencode(query)}")
            took_s = time.monotonic() - began_s
            print(f"{1000 * took_s:7.1f} ms {len(answer.content):8} bytes {path} {query}")
            assert answer.status_code == 200
            assert "narrow your filter" not in answer.text
            assert took_s < 1.5, (path, query)
    wait_until(
        lambda: rows(
            connection,
            "select from pg_stat_user_tables where relname = 'q_orders' and idx_scan > 20",
        ),
        "the statistics of the closed sessions",
    )

    read = rows(
        connection,
        "select relname, seq_tup_read from pg_stat_user_tables "
        "where relname in ('q_orders', 'dead_letter_message', 'dead_letter_event') and seq_tup_read > 0",
    )
    assert read == []
