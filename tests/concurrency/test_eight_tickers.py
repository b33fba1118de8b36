"""Eight tickers, rotation without a pause, and writers of every kind."""

from __future__ import annotations

import threading

import psycopg

from support import rows, value, wait_until


def test_eight_tickers_and_rotation_lose_and_double_nothing(database_18):
    """Writers use both isolation levels, insert_event and COPY; some commit late or roll back."""
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('changes')")
        connection.execute(
            """update pgq.queue
            set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '20 ms'"""
        )
        for consumer in ("lake", "slow"):
            connection.execute("select pgq.register_consumer('changes', %s)", (consumer,))
    errors: list[Exception] = []
    done = threading.Event()
    committed: list[list[str]] = [[] for _ in range(4)]
    delivered: list[str] = []
    emptied: list[tuple] = []

    def guarded(work, *arguments):
        def run():
            try:
                with database_18.connect() as session:
                    work(session, *arguments)
            except Exception as error:
                errors.append(error)

        return threading.Thread(target=run)

    def write(session: psycopg.Connection, number: int):
        if number % 2:
            session.execute("set default_transaction_isolation = 'repeatable read'")
        for i in range(150):
            data = f"{number}-{i}"
            with session.transaction(force_rollback=i % 10 == 3):
                if i % 4 == 0:
                    table = value(session, "select pgq.current_event_table('changes')")
                    with session.cursor().copy(
                        f"copy {table} (ev_time, ev_type, ev_data) from stdin"
                    ) as copy:
                        copy.write_row(("2026-01-01 00:00+00", "t", data))
                else:
                    session.execute("select pgq.insert_event('changes', 't', %s)", (data,))
                with session.transaction(force_rollback=True):
                    session.execute("select pgq.insert_event('changes', 't', 'rolled back')")
                if i % 7 == 0:
                    session.execute("select pg_sleep(0.05)")
            if i % 10 != 3:
                committed[number].append(data)

    def tick_on(session: psycopg.Connection, call: str):
        while not done.is_set():
            session.execute(call)

    def rotate_on(session: psycopg.Connection):
        while not done.is_set():
            emptied.extend(
                rows(session, "select segment from sluice.rotate() where action = 'reclaimed'")
            )

    def read_batches(session: psycopg.Connection, consumer: str) -> list[str]:
        read: list[str] = []
        while (
            batch := value(session, "select pgq.next_batch('changes', %s)", consumer)
        ) is not None:
            read += [
                d for (d,) in rows(session, "select ev_data from pgq.get_batch_events(%s)", batch)
            ]
            session.execute("select pgq.finish_batch(%s)", (batch,))
        return read

    def consume_on(session: psycopg.Connection):
        while not done.is_set():
            delivered.extend(read_batches(session, "lake"))

    writers = [guarded(write, number) for number in range(4)]
    calls = [
        "select pgq.ticker('changes')",
        "select pgq.ticker()",
        "select * from sluice.tick()",
        "select sluice.log_tick('changes')",
    ]
    others = [guarded(tick_on, call) for call in calls * 2]
    others += [guarded(rotate_on), guarded(consume_on)]
    for thread in writers + others:
        thread.start()
    for thread in writers:
        thread.join(200)
    done.set()
    for thread in others:
        thread.join(60)

    assert errors == []
    expected = sorted(data for written in committed for data in written)
    with database_18.connect() as connection:
        connection.execute("select sluice.log_tick('changes')")
        delivered += read_batches(connection, "lake")
        assert sorted(delivered) == expected
        assert sorted(read_batches(connection, "slow")) == expected

        def has_emptied():
            connection.execute("select * from sluice.rotate()")
            return value(connection, "select count(*) from pgq.event_1") < len(expected)

        # Events that were just read are kept for a rotation period.
        wait_until(has_emptied, "a segment to be emptied")
