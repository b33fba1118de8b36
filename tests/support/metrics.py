"""A database with an object of each kind that metrics show, and their text, read without prometheus_client."""

from __future__ import annotations

import re
from urllib.request import Request, urlopen

import psycopg

SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def fill(connection: psycopg.Connection) -> None:
    """Create the queue `orders`, the log `changes` with a consumer and a share group, a schedule and a pipeline,
    a paused queue `temporary`, and a worker of `orders`.

    Of `orders` 1 is archived, 2 dead-lettered, 3 in flight, 4 delayed, 5 and 6 are ready, 5 for a minute.
    """
    connection.execute("select pgmq.create('orders'), pgmq.create_unlogged('temporary')")
    connection.execute("select pgmq.send('orders', '1') from generate_series(1, 6)")
    connection.execute("select pgmq.archive('orders', 1)")
    connection.execute("select msg_id from pgmq.read('orders', 600, 2)")
    connection.execute("select sluice.reject('orders', 2, 1, 'bad')")
    connection.execute("select pgmq.set_vt('orders', 4, 600)")
    connection.execute("update pgmq.q_orders set read_ct = 0 where msg_id = 4")
    connection.execute(
        "update pgmq.q_orders set vt = now() - interval '1 min', enqueued_at = now() - interval '1 min' where msg_id = 5"
    )
    connection.execute("select pg_stat_force_next_flush()")  # the server counts finished messages
    connection.execute("select pgq.create_queue('changes')")
    for consumer in ("audit", "lake"):
        connection.execute("select pgq.register_consumer('changes', %s)", (consumer,))
    connection.execute("select sluice.create_group('changes', 'workers')")
    connection.execute("select pgq.insert_event('changes', 't', 'x') from generate_series(1, 5)")
    connection.execute("select sluice.log_tick('changes')")
    connection.execute("select sluice.claim('changes', 'workers', 2)")
    connection.execute(
        "select sluice.hold_pipeline('changes', 'lake', 'events', '/lake', %s)",
        (connection.info.backend_pid,),
    )
    connection.execute(
        "select sluice.schedule('nightly', 'orders', '1'::jsonb, every => interval '1 day')"
    )
    connection.execute("update sluice.schedule set due_at = clock_timestamp() - interval '1 hour'")
    connection.execute("select sluice.set_queue_options('temporary', '{\"paused\": true}')")
    connection.execute(
        "select sluice.report_worker('w', 'shipping', 'host', 1, '0', array['queue orders'], null, '1 s', '[]', '{}', %s)",
        (connection.info.backend_pid,),
    )
    connection.execute("select sluice._note_failure('retention', 'orders', null, 'an error')")


def scrape(port: int, *, accept: str = "text/plain", path: str = "/metrics") -> str:
    """Return the text of an endpoint of this machine."""
    request = Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    with urlopen(request, timeout=30) as response:
        return response.read().decode()


def samples_of(text: str) -> Samples:
    """Return the samples of a text by name and labels."""
    found: Samples = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, number = SAMPLE.fullmatch(line).groups()
            found[name, frozenset(LABEL.findall(labels or ""))] = float(number)
    return found


def names_of(text: str) -> set[str]:
    """Return the names of the samples of a text."""
    return {name for name, _ in samples_of(text)}


def of(samples: Samples, name: str, **labels: str) -> float:
    """Return one sample."""
    return samples[name, frozenset(labels.items())]
