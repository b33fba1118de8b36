"""Time of the doctor on many queues and a large archive."""

from __future__ import annotations

import time

import psycopg
import pytest

from pgsluice.ops.doctor import diagnose, server_facts

QUEUES = 1_000
ARCHIVED = 10_000  # in each


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_thousand_queues_and_ten_million_archived_messages_are_checked_in_five_seconds(
    database_18, capsys
):
    with database_18.connect() as connection:
        for number in range(QUEUES):
            name = f"queue_{number}"
            connection.execute("select pgmq.create(%s)", (name,))
            connection.execute(
                "select pgmq.send_batch(%s, array_fill('{}'::jsonb, '{20}'))", (name,)
            )
            connection.execute(
                f"insert into pgmq.a_{name} (msg_id, read_ct, enqueued_at, archived_at, vt, message) "
                "select -n, 1, now(), now(), now(), jsonb_build_object('order', n) from generate_series(1, %s) as n",
                (ARCHIVED,),
            )
    times_s: list[float] = []
    for _ in range(2):  # the first with cold caches of the catalog
        with psycopg.connect(database_18.url, autocommit=True) as connection:
            began_s = time.monotonic()
            slow: dict[str, float] = {}
            for finding in diagnose(connection):
                now_s = time.monotonic()
                slow[finding.check] = now_s - began_s - sum(slow.values())
                assert finding.status in ("ok", "warn"), finding
            times_s.append(time.monotonic() - began_s)
    slowest = sorted(slow.items(), key=lambda item: -item[1])[:5]
    with capsys.disabled():
        print(
            f"\ndoctor on {QUEUES} queues, {QUEUES * ARCHIVED} archived messages: "
            f"{times_s[0]:.2f} s, then {times_s[1]:.2f} s; slowest checks: "
            + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in slowest)
        )

    assert max(times_s) < 5


@pytest.mark.long
def test_explain_adds_less_than_a_second_on_a_thousand_queues(database_18, capsys):
    with database_18.connect() as connection:
        for number in range(QUEUES):
            connection.execute(
                "select pgmq.create(%(name)s), pgmq.send(%(name)s, '{}')",
                {"name": f"queue_{number}"},
            )
    times_s: list[float] = []
    for _ in range(5):
        with psycopg.connect(database_18.url, autocommit=True) as connection:
            connection.execute("select * from sluice.explain_queue('queue_7')")
            began_s = time.monotonic()
            assert server_facts(connection) == []
            times_s.append(time.monotonic() - began_s)
    with capsys.disabled():
        print(
            f"\nserver and database, {QUEUES} queues: "
            f"{min(times_s) * 1000:.0f} to {max(times_s) * 1000:.0f} ms"
        )

    assert min(times_s) < 1
