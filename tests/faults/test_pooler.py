"""Worker processes behind PgBouncer, one of them killed."""

from __future__ import annotations

import pytest

from support import rows, value
from support.pooler import pooling

EACH = 30
QUEUES = ("threads", "loop", "held")


@pytest.mark.parametrize("mode", ["transaction", pytest.param("session", marks=pytest.mark.long)])
def test_workers_behind_a_pooler_that_are_killed_write_each_effect_once(
    connection, queue, workers, database_18, servers_folder, mode
):
    for number, name in enumerate(QUEUES):
        first = number * EACH
        queue.send_batch(name, [{"n": first + n, "seconds": 0.02} for n in range(EACH)])
    with pooling(database_18.url, servers_folder, mode=mode, default_pool_size=40) as url:
        some = workers(",".join(QUEUES), "--max-connections", "15", url=url)
        first, _ = some.start(), some.start()
        some.wait_until(lambda: len(some.lines("done")) > EACH, "the first messages to be handled")
        first.kill()
        some.wait_until(
            lambda: value(connection, "select count(*) from effect") == len(QUEUES) * EACH,
            "all effects",
        )
        for name in QUEUES:
            some.wait_until(
                lambda name=name: value(connection, f"select count(*) from pgmq.q_{name}") == 0,
                "the queue to be empty",
            )
        log = some.log()
        # No notification announces this message: a poll finds it.
        queue.send("threads", {"n": 1_000})
        some.wait_for("done", 1_000)

    assert value(connection, "select count(distinct n) from effect") == len(QUEUES) * EACH + 1
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    assert "component=maintenance role=leader" in log
    assert ('listener state="pooled"' in log) == (mode == "transaction")
    assert "cannot" not in log
    assert rows(connection, "select n from effect group by n having count(*) > 1") == []
