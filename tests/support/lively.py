"""A database in which much goes on, as a shop has it: for the pages of the dashboard and their pictures."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgsluice import Operations
from pgsluice.client import EventLog, Schedules, WorkQueue

# A query for each page that needs one, by the name of its route.
QUERIES: dict[str, dict[str, Any]] = {
    "queue": {"name": "orders"},
    "search": {"text": "41003"},
    "messages": {"queue": "orders"},
    "message": {"queue": "orders", "msg_id": 90_007},
    "message_payload": {"queue": "orders", "msg_id": 90_007},
    "dead_letters": {"queue": "mails"},
    "dead_letters_export": {"queue": "mails"},
    "log": {"name": "changes"},
    "events": {"log": "changes"},
    "event": {"log": "changes", "ev_id": 40_003},
    "consumer": {"log": "changes", "consumer": "billing"},
    "group": {"log": "changes", "group": "shipping"},
    "schedule": {"name": "nightly report"},
    "pipeline": {"log": "changes", "consumer": "lake"},
}
_ERRORS = (
    ("SMTPRecipientsRefused", "550 5.1.1 mailbox unavailable: ann@example.org"),
    ("TimeoutError", "no answer from smtp.example.org within 10 s"),
    ("TimeoutError", "no answer from smtp.example.org within 30 s"),
    ("KeyError", "'address'"),
)
_HOUR = 360  # samples, one every 10 seconds
# Messages sent before, and messages sent per second.
_BUSY = {
    "orders": (90_000, 14.0),
    "mails": (12_000, 2.0),
    "payments": (55_000, 9.0),
    "stock": (8_000, 1.2),
}


def fill(connection: psycopg.Connection) -> None:
    """Fill an empty database; the connection must be in autocommit mode, and is that of its worker and pipeline.

    Queues: `orders` with messages in every state, `mails` with dead letters and retries, `invoices` paused, `stock`
    with a parked key, `payments` with nothing to do, `thumbnails` without a worker.
    The log `changes` has the consumers `billing`, which is behind, and `lake`, the share group `shipping` with open
    claims, and the group `search` with a parked key.
    """
    for name, (sent, _) in _BUSY.items():
        WorkQueue(connection).create(name)
        connection.execute(f"select setval('pgmq.q_{name}_msg_id_seq', {sent})")
        WorkQueue(connection).set_queue_options(
            name,
            max_attempts=2 if name == "mails" else 5,
            backoff="constant",
            backoff_base=timedelta(minutes=10),
            backoff_jitter=False,
        )
    _orders(connection)
    _mails(connection)
    _other_queues(connection)
    _log(connection)
    _groups(connection)
    _schedules(connection)
    _processes(connection)
    _samples(connection)


def _orders(connection: psycopg.Connection) -> None:
    work = WorkQueue(connection)
    work.set_queue_options("orders", archive_retention=timedelta(days=7))
    work.send_batch("orders", [_order(n) for n in range(1, 61)])
    _age(connection, "orders", "40 seconds")
    done = [message.msg_id for message in work.read("orders", 600, 6)]
    work.archive_batch("orders", done)
    claimed = connection.execute(
        "select msg_id, read_ct from sluice.claim_messages('orders', 600, 5, 'shop-1')"
    ).fetchall()
    _fail(
        connection,
        "orders",
        claimed[:1],
        "TimeoutError",
        "no answer from the payment provider within 5 s",
    )
    connection.execute(
        "select sluice.begin_attempts('orders', array[%s]::bigint[], array[%s]::integer[], 'shop-1')",
        claimed[1],
    )
    work.send_batch("orders", [_order(n) for n in range(61, 65)], delay=900)


def _order(number: int) -> dict[str, Any]:
    return {
        "order": 41_000 + number,
        "customer": f"c-{number * 7 % 100:03}",
        "total": number * 13 % 90 + 0.5,
        "items": [{"sku": f"SKU-{number % 12:02}", "quantity": number % 3 + 1}],
    }


def _mails(connection: psycopg.Connection) -> None:
    work = WorkQueue(connection)
    work.send_batch("mails", [{"to": f"customer{n}@example.org"} for n in range(24)])
    _age(connection, "mails", "40 minutes")
    for attempt in (1, 2):
        claimed = connection.execute(
            "select msg_id, read_ct from sluice.claim_messages('mails', 600, %s, 'shop-1')",
            (14 if attempt == 1 else 11,),
        ).fetchall()
        for number, one in enumerate(claimed):
            _fail(connection, "mails", [one], *_ERRORS[number % len(_ERRORS)])
        connection.execute(
            "update pgmq.q_mails set vt = clock_timestamp() where read_ct = 1 and msg_id <= 12011"
        )


def _fail(
    connection: psycopg.Connection,
    queue: str,
    claimed: list[tuple[int, int]],
    error_type: str,
    error: str,
) -> None:
    failures = [
        {
            "msg_id": msg_id, "read_ct": read_ct, "reason": "handler", "error_type": error_type, "error": error,
            "trace": f'Traceback (most recent call last):\n  File "shop.py", line 31, in handle\n{error_type}: {error}',
        }
        for msg_id, read_ct in claimed
    ]  # fmt: skip
    connection.execute("select sluice.fail(%s, %s, 'shop-1')", (queue, Jsonb(failures)))


def _age(connection: psycopg.Connection, queue: str, interval: str) -> None:
    """Make ready messages older."""
    connection.execute(
        f"update pgmq.q_{queue} set enqueued_at = enqueued_at - %(age)s::interval, "
        "vt = case when vt <= clock_timestamp() then vt - %(age)s::interval else vt end",
        {"age": interval},
    )


def _other_queues(connection: psycopg.Connection) -> None:
    work = WorkQueue(connection)
    for name in ("invoices", "thumbnails"):
        work.create(name)
    work.send_batch("invoices", [{"invoice": n} for n in range(18)])
    work.set_queue_options("invoices", paused=True, pause_reason="printer is being replaced")
    work.send_batch("thumbnails", [{"image": f"{n}.jpg"} for n in range(230)])
    _age(connection, "thumbnails", "25 minutes")
    work.set_queue_options("stock", key_concurrency=1, rate=50, when_waiting="park")
    for number in range(12):
        work.send(
            "stock",
            {"sku": number % 3, "change": -1},
            headers={"x-pgmq-group": f"SKU-{number % 3}"},
        )
    claimed = connection.execute(
        "select msg_id, read_ct from sluice.claim_messages('stock', 600, 1, 'shop-1')"
    ).fetchall()
    _fail(connection, "stock", claimed, "OperationalError", "deadlock detected")
    connection.execute("select sluice.claim_messages('stock', 600, 1, 'shop-1')")  # parks the key
    work.archive("payments", work.send("payments", {"payment": 1}))


def _log(connection: psycopg.Connection) -> None:
    log = EventLog(connection)
    log.create("changes")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select setval(queue_event_seq::regclass, 40_000) from pgq.queue")
    log.ticker("changes")
    for consumer in ("billing", "lake"):
        log.register_consumer("changes", consumer)
    for group, options in (
        ("shipping", {}),
        ("search", {"key": "ev_extra1", "when_waiting": "park"}),
    ):
        options = {
            "backoff": "constant",
            "backoff_base": "10 minutes",
            **options,
        }
        connection.execute(
            "select sluice.create_group('changes', %s, %s)", (group, json.dumps(options))
        )
    for tick in range(8):
        for number in range(20):
            order = 41_000 + tick * 20 + number
            log.insert_event(
                "changes", "order.paid" if number % 3 else "order.placed",
                json.dumps({"order": order, "total": order % 97}), ev_extra1=f"customer {number % 5}",
            )  # fmt: skip
        log.ticker("changes")
        batch_id = log.next_batch("changes", "lake")
        if batch_id is not None:
            log.finish_batch(batch_id)
    connection.execute(
        "update pgq.tick set tick_time = tick_time - (10 - tick_id) * interval '20 seconds', "
        "tick_event_seq = greatest(tick_event_seq, 40_000)"
    )
    connection.execute(
        "select sluice.hold_pipeline('changes', 'lake', 'events', '/lake/changes', %s)",
        (connection.info.backend_pid,),
    )
    connection.execute(
        "select sluice.report_pipeline('changes', 'lake', 140, clock_timestamp() - interval '8 seconds')"
    )


def _groups(connection: psycopg.Connection) -> None:
    for group, qty in (("shipping", 30), ("search", 20)):
        claimed = connection.execute(
            "select claim_id, ev_id from sluice.claim('changes', %s, %s, '10 minutes')",
            (group, qty),
        ).fetchall()
        claim_id, ids = claimed[0][0], [ev_id for _, ev_id in claimed]
        outcomes = [("accept", ids[:12], None, None)]
        if group == "shipping":
            outcomes.append(
                ("retry", ids[12:14], "TimeoutError: the carrier does not answer", None)
            )
            outcomes.append(("reject", ids[14:15], "ValueError: unknown country 'XX'", "invalid"))
        else:
            outcomes.append(("retry", ids[12:13], "ConnectionError: index is read-only", None))
        for outcome, ev_ids, error, reason in outcomes:
            connection.execute(
                "select sluice.acknowledge('changes', %s, %s, %s, %s, null, %s, %s)",
                (group, claim_id, outcome, ev_ids, error, reason),
            )
        # The next claim reads the outcomes.
        connection.execute("select sluice.claim('changes', %s, 5, '10 minutes')", (group,))


def _schedules(connection: psycopg.Connection) -> None:
    schedules = Schedules(connection)
    schedules.schedule("nightly report", "mails", {"report": "sales"}, cron="30 2 * * *")
    schedules.schedule("stock count", "stock", {"count": "all"}, every_s=900)
    schedules.schedule("archive invoices", "invoices", {"month": "last"}, cron="0 4 1 * *")
    schedules.pause_schedule("archive invoices")
    connection.execute(
        "update sluice.schedule set due_at = clock_timestamp() - interval '2 minutes' where name = 'stock count'"
    )


def _processes(connection: psycopg.Connection) -> None:
    running = [
        {"handler": "place_order", "queue": "orders", "msg_id": 90_008, "running_s": 12.5},
        {
            "handler": "ship",
            "log": "changes",
            "group": "shipping",
            "ev_id": 40_016,
            "running_s": 0.4,
        },
    ]
    counts = {
        "place_order": {"done": 5210, "retry": 31},
        "send_mail": {"done": 890, "retry": 44, "dead": 11},
    }
    times = [
        {"source": "queue orders", "handler": "place_order", "max_s": 3.8, "buckets": [[0.025, 0.05, 310], [0.05, 0.1, 96], [1.0, 2.5, 9], [2.5, 5.0, 5]]},
        {"source": "queue mails", "handler": "send_mail", "max_s": 30.1, "buckets": [[0.25, 0.5, 51], [10.0, 30.0, 3], [30.0, 60.0, 2]]},
    ]  # fmt: skip
    slowest = [
        {"handler": "send_mail", "queue": "mails", "msg_id": 12_003, "seconds": 30.1, "ended_s": 25.0},
        {"handler": "place_order", "queue": "orders", "msg_id": 90_002, "seconds": 3.8, "ended_s": 61.0},
    ]  # fmt: skip
    connection.execute(
        "select sluice.report_worker('shop-1', 'shop:app', 'web-1', 4711, '0.1.0', %s, 20, '3 hours', %s, %s, %s, '[]', %s, %s)",
        (
            ["queue orders", "queue mails", "queue payments", "queue stock", "log changes group shipping"],
            Jsonb(running), Jsonb(counts), connection.info.backend_pid, Jsonb(times), Jsonb(slowest),
        ),
    )  # fmt: skip
    connection.execute(
        "select sluice.report_worker('shop-2', 'shop:app', 'web-2', 815, '0.1.0', %s, 20, '2 days', '[]', '{}', 1)",
        (["queue orders"],),
    )


def _samples(connection: psycopg.Connection) -> None:
    """Store samples of the last hour: two peaks of orders, and a consumer that falls behind."""
    figures: list[tuple[Any, ...]] = []
    states = {each.queue_name: each for each in Operations(connection).list_queue_states()}
    for name, (_, rate) in _BUSY.items():
        now, sent = states[name], float(states[name].sent)
        now_s = now.oldest_ready_s or 1.0
        for turn in reversed(range(_HOUR)):
            wave = 0.55 + 0.4 * math.sin(turn / 40) + 0.1 * math.sin(turn / 3 + rate)
            waiting = round(now.ready + 40 * rate * max(wave - 0.6, 0) * (1 - turn / _HOUR) ** 0.4)
            length = waiting + now.in_flight + now.retrying + now.delayed
            figures.append(
                (turn, "queue", name, "", length, waiting, now.in_flight, now.delayed, now_s * waiting / max(now.ready, 1), round(sent),
                 round(sent) - length, now.dead, None, None, None, now.retrying)
            )  # fmt: skip
            sent -= 10 * rate * max(wave, 0.05)
    for turn in range(_HOUR):
        behind = 20 + turn * turn // 900
        figures.append(
            (turn, "consumer", "changes", "billing", *(None,) * 5, 20 * turn + 32_960, 20 * turn + 32_960 - behind, None,
             behind, behind / 3.0, 8192 * behind, None)
        )  # fmt: skip
        figures.append(
            (turn, "group", "changes", "shipping", *(None,) * 5, 20 * turn + 32_960, 20 * turn + 32_950, 1, 10, 1.5, None,
             turn // 60)
        )  # fmt: skip
    with connection.transaction():
        connection.execute(
            "create temporary table figures (turn int, kind text, name text, reader_name text, length bigint, ready bigint, "
            "in_flight bigint, delayed bigint, oldest_ready_s float8, sent bigint, finished bigint, dead bigint, "
            "lag_events bigint, lag_s float8, pinned_bytes bigint, retrying bigint) on commit drop"
        )
        with connection.cursor().copy("copy figures from stdin") as copy:
            for row in figures:
                copy.write_row(row)
        connection.execute(
            "insert into figures select turn, 'queues', '', '', sum(length), sum(ready), sum(in_flight), sum(delayed), "
            "max(oldest_ready_s), sum(sent), sum(finished), sum(dead), null, null, null, sum(retrying) "
            "from figures where kind = 'queue' group by turn"
        )
        connection.execute(
            "select sluice._store_samples(found, 0, clock_timestamp() - (%s - turn) * interval '10 s') from ("
            "select turn, array_agg(row(kind, name, reader_name, length, ready, in_flight, delayed, oldest_ready_s, sent, "
            "finished, dead, lag_events, lag_s, pinned_bytes, retrying)::sluice.sample_figures) as found "
            "from figures group by turn order by turn) as turns",
            (_HOUR,),
        )
    Operations(connection).take_samples()
