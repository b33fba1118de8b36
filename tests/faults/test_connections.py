"""Terminated, closed and unresponsive connections, and statements cancelled by timeouts."""

from __future__ import annotations

import random
import re
import time

import psycopg
import pytest

from support import rows, value

MESSAGES = 200
# The worker's sessions, without the test's own.
OTHERS = """
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""


def effects(connection) -> list[int]:
    return [n for (n,) in rows(connection, "select n from effect order by n")]


def send_slowly(queue, count: int, pause_s: float = 0.02):
    for n in range(count):
        queue.send("threads", {"n": n, "seconds": 0.01})
        time.sleep(pause_s)


@pytest.mark.slow
def test_sessions_that_are_terminated_come_back_without_a_flood_of_words(
    connection, queue, workers, seed
):
    chance = random.Random(seed)
    some = workers("threads", "--no-maintenance")
    process = some.start()
    queue.send("threads", {"n": 0})
    some.wait_for("done", 0)

    began = time.monotonic()
    for n in range(1, MESSAGES):
        queue.send("threads", {"n": n, "seconds": 0.01})
        if n % 5 == 0:
            found = [pid for (pid,) in rows(connection, OTHERS)]
            if found:
                connection.execute("select pg_terminate_backend(%s)", [chance.choice(found)])
        time.sleep(0.02)
    some.wait_until(lambda: len(effects(connection)) == MESSAGES, "all effects")

    assert effects(connection) == list(range(MESSAGES))
    assert process.poll() is None
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    seconds = time.monotonic() - began
    warnings = re.findall(r"^\S+Z (?:WARNING|ERROR) (\S+): ", some.log(), re.MULTILINE)
    of_handlers = warnings.count("pgsluice.worker.failures")
    # Each attempt whose session ended is logged as a line, the first one with a traceback.
    assert of_handlers <= MESSAGES // 5, some.log()
    assert some.log().count("Traceback") <= 10, some.log()
    assert 0 < len(warnings) - of_handlers <= 5 + 2 * seconds, some.log()


@pytest.mark.slow
def test_connections_that_are_cut_are_made_again(connection, queue, workers, proxy, far_url):
    some = workers("threads", "--no-maintenance", url=far_url)
    process = some.start()
    for n in range(40):
        queue.send("threads", {"n": n, "seconds": 0.01})
        if n % 10 == 5:
            some.wait_until(lambda: len(effects(connection)) > 0, "the first effect")
            proxy.cut()

    some.wait_until(lambda: len(effects(connection)) == 40, "all effects")

    assert effects(connection) == list(range(40))
    assert process.poll() is None


@pytest.mark.slow
def test_lost_replies_dead_letter_no_message(connection, queue, workers, proxy, far_url):
    some = workers("threads", "--no-maintenance", url=far_url)
    process = some.start()
    for n in range(60):
        queue.send("threads", {"n": n})
        if n % 6 == 0:
            proxy.lose_the_next_reply()
    some.wait_until(lambda: len(effects(connection)) >= 60, "all effects", 60)
    some.wait_until(
        lambda: value(connection, "select count(*) from pgmq.q_threads") == 0,
        "the queue to be empty",
        60,
    )

    assert effects(connection) == list(range(60))
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    assert process.poll() is None


@pytest.mark.slow
def test_connections_into_a_black_hole_are_found(connection, queue, workers, proxy, far_url):
    some = workers("threads", "--no-maintenance", url=far_url)
    process = some.start()
    queue.send("threads", {"n": 0})
    # Wait for the commit, which follows the handler's last line:
    # without it the server would keep the transaction open.
    some.wait_until(lambda: effects(connection) == [0], "the effect of the first")

    proxy.swallow()
    queue.send("threads", {"n": 1})
    some.wait_until(lambda: effects(connection) == [0, 1], "the effect of the second", 60)
    assert process.poll() is None


@pytest.mark.parametrize(
    "setting",
    [
        "statement_timeout = '5ms'",
        "lock_timeout = '1ms'",
        "idle_in_transaction_session_timeout = '5ms'",
    ],
)
def test_a_server_that_gives_up_on_statements_loses_nothing(
    database_18, connection, queue, workers, setting
):
    queue.send_batch("threads", [{"n": n, "seconds": 0.01} for n in range(40)])
    name = psycopg.conninfo.conninfo_to_dict(database_18.url)["dbname"]
    connection.execute(f"alter database {name} set {setting}")
    some = workers("threads", "--no-maintenance")
    process = some.start()
    some.wait_until(
        lambda: len(some.lines("start")) > 0 or "again" in some.log(), "the first attempt"
    )

    connection.execute(f"alter database {name} reset all")
    connection.execute(f"select pg_terminate_backend(o.pid) from ({OTHERS}) as o")
    some.wait_until(lambda: len(effects(connection)) == 40, "all effects", 60)

    assert effects(connection) == list(range(40))
    assert process.poll() is None
