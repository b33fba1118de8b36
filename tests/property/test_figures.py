"""Figures of queues and consumers after random traffic and time, compared with counts made from the tables."""

from __future__ import annotations

import random
from typing import Any

import psycopg

from pgsluice.client import EventLog, FailedMessage, Message, Operations, WorkQueue
from support import rows, value
from support.servers import Database

STEPS = 60
STATES = ("visible", "in flight", "retrying", "delayed")


def pass_time(connection: psycopg.Connection, table: str, columns: list[str]) -> None:
    """Make the times of all rows ten minutes older, as if the clock had gone on."""
    older = ", ".join(f"{name} = {name} - interval '10 minutes'" for name in columns)
    connection.execute(f"update {table} set {older}")


class QueueTraffic:
    """Sends, claims and settles messages of the queue `q`, and counts those that left it."""

    def __init__(self, connection: psycopg.Connection, seed: int) -> None:
        self.connection, self.dice = connection, random.Random(seed)
        self.work = WorkQueue(connection)
        self.work.create("q")
        self.claimed: list[Message] = []
        self.finished = self.sent = 0

    def step(self) -> None:
        kind = self.dice.choice(
            (
                "send",
                "send",
                "delay",
                "roll back",
                "read",
                "read",
                "settle",
                "settle",
                "pop",
                "time",
            )
        )
        number = self.dice.randint(1, 3)
        if kind in ("send", "delay"):
            self.work.send_batch("q", list(range(number)), delay=600 * (kind == "delay"))
            self.sent += number
        elif kind == "roll back":
            with self.connection.transaction(force_rollback=True):
                self.work.send_batch("q", list(range(number)))
            self.sent += number
        elif kind == "read":
            self.claimed += self.work.read("q", 300, number)
        elif kind == "settle" and self.claimed:
            self.settle(self.claimed.pop(self.dice.randrange(len(self.claimed))))
        elif kind == "pop":
            self.finished += len(self.work.pop("q", number))
        elif kind == "time":
            pass_time(self.connection, "pgmq.q_q", ["vt", "enqueued_at", "last_read_at"])
            self.claimed.clear()

    def settle(self, message: Message) -> None:
        how = self.dice.choice(("archive", "delete", "fail", "release", "reject"))
        if how in ("archive", "delete"):
            self.finished += getattr(self.work, how)("q", message.msg_id)
        elif how == "fail":
            self.work.fail("q", [FailedMessage(message, error="no", delay_min_s=500)])
        elif how == "release":
            self.work.release(
                "q", message.msg_id, message.read_ct, delay=self.dice.choice((0, 500))
            )
        else:
            self.finished += self.work.reject("q", message.msg_id, message.read_ct, "bad")

    def counted(self) -> dict[str, int]:
        """Count the messages by state from their rows."""
        found = dict.fromkeys(STATES, 0)
        for is_due, was_read, is_claimed in rows(
            self.connection,
            "select vt <= clock_timestamp(), read_ct > 0, last_read_at is not null from pgmq.q_q",
        ):
            state = "visible" if is_due else "in flight" if is_claimed else "retrying"
            found[state if is_due or was_read else "delayed"] += 1
        return found


def test_figures_of_a_queue_are_those_of_its_rows(database_18: Database, seed: int):
    with database_18.connect() as connection:
        traffic = QueueTraffic(connection, seed)
        operations = Operations(connection)
        for _ in range(STEPS):
            traffic.step()
            connection.execute("select pg_stat_force_next_flush()")
            counts = traffic.counted()
            length = sum(counts.values())

            (state,) = operations.list_queue_states()
            assert (
                dict(
                    zip(
                        STATES,
                        (state.ready, state.in_flight, state.retrying, state.delayed),
                        strict=True,
                    )
                )
                == counts
            )
            assert (state.length, state.sent, state.finished) == (
                length,
                traffic.sent,
                traffic.finished,
            )
            oldest_s = value(
                connection,
                "select extract(epoch from clock_timestamp() - min(greatest(vt, enqueued_at)))::float8 "
                "from pgmq.q_q where vt <= clock_timestamp()",
            )
            assert (oldest_s is None) == (state.oldest_ready_s is None)
            assert abs((state.oldest_ready_s or 0) - (oldest_s or 0)) < 5

            metrics = traffic.work.metrics("q")
            assert (metrics.queue_length, metrics.queue_visible_length) == (
                length,
                counts["visible"],
            )
            explained = operations.explain_queue("q")[0].detail
            assert [
                explained[name] for name in ("visible", "in_flight", "retrying", "delayed")
            ] == list(counts.values())
            connection.execute("select setval('sluice.sample_turn', 1)")
            operations.take_samples()
            (sample,) = operations.list_newest_samples("queue")
            assert (sample.ready, sample.in_flight, sample.retrying, sample.delayed) == tuple(
                counts.values()
            )


class LogTraffic:
    """Inserts events into the log `l` in two sessions, and consumes some of them."""

    def __init__(
        self, connection: psycopg.Connection, other: psycopg.Connection, seed: int
    ) -> None:
        self.connection, self.other, self.dice = connection, other, random.Random(seed)
        self.log = EventLog(connection)
        self.log.create("l")
        self.log.register_consumer("l", "c")
        connection.execute(
            "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
        )
        self.consumed: set[tuple[Any, ...]] = set()

    def step(self) -> None:
        kind = self.dice.choice(
            (
                "insert",
                "insert",
                "roll back",
                "begin",
                "commit",
                "tick",
                "tick",
                "consume",
                "retry",
                "time",
            )
        )
        insert = "select pgq.insert_event('l', 't', 'd') from generate_series(1, %s)"
        number = self.dice.randint(1, 3)
        if kind == "insert":
            self.connection.execute(insert, (number,))
        elif kind == "roll back":
            with self.connection.transaction(force_rollback=True):
                self.connection.execute(insert, (number,))
        elif kind == "begin":
            self.other.execute(insert, (number,))
        elif kind == "commit":
            self.other.commit()
        elif kind == "tick":
            self.connection.execute("select pgq.ticker('l')")
        elif kind == "time":
            self.other.commit()  # its events would not become older
            pass_time(self.connection, "pgq.event_1", ["ev_time"])
            pass_time(self.connection, "pgq.tick", ["tick_time"])
        else:
            self.consume(is_retried=kind == "retry")

    def consume(self, *, is_retried: bool) -> None:
        batch = value(self.connection, "select pgq.next_batch('l', 'c')")
        if batch is None:
            return
        found = rows(
            self.connection, "select ev_id, ev_txid::text from pgq.get_batch_events(%s)", batch
        )
        if is_retried and found:
            self.connection.execute("select pgq.event_retry(%s, %s, 0)", (batch, found[0][0]))
        self.connection.execute("select pgq.finish_batch(%s)", (batch,))
        self.connection.execute("select pgq.maint_retry_events()")
        self.consumed.update(found)

    def unconsumed_s(self) -> list[float]:
        """Return the ages of the events that the consumer has not finished, by transaction id."""
        return [
            age_s
            for ev_id, txid, age_s in rows(
                self.connection,
                "select ev_id, ev_txid::text, extract(epoch from clock_timestamp() - ev_time)::float8 "
                "from pgq.event_1 order by ev_txid",
            )
            if (ev_id, txid) not in self.consumed
        ]


def test_lag_of_a_consumer_is_the_age_of_its_first_unfinished_event(
    database_18: Database, seed: int
):
    with database_18.connect() as connection, database_18.connect(autocommit=False) as other:
        traffic = LogTraffic(connection, other, seed)
        for _ in range(STEPS):
            traffic.step()
            ages_s = traffic.unconsumed_s()

            (consumer,) = traffic.log.list_consumers("l")
            assert (consumer.lag_events == 0) == (not ages_s)
            # A retried event keeps its time, so it may be older than one of an earlier transaction.
            first_s, oldest_s = (ages_s[0], max(ages_s)) if ages_s else (0, 0)
            assert first_s - 5 < (consumer.lag_s or 0) < oldest_s + 5
            (state,) = rows(
                connection,
                "select lag_events, lag_s from sluice._log_state('l') where kind = 'consumer'",
            )
            assert state[0] == consumer.lag_events
            assert abs(state[1] - (consumer.lag_s or 0)) < 5
        other.commit()
        connection.execute("select pgq.ticker('l')")
        while traffic.unconsumed_s():
            connection.execute("select pgq.ticker('l')")
            traffic.consume(is_retried=False)
        assert traffic.log.list_consumers("l")[0].lag_s == 0
