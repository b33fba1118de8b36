"""A user's program for PgQ's Python package, run by the system's Python.

python_pgq_program.py consume|coop|local <ini> [--register|--unregister|--rewind|--reset]
python_pgq_program.py produce <connection string>
"""

import sys

import pgq
import psycopg2
from pgq.producer import bulk_insert_events

NOW = "now"


class Recording:
    """Records the events that it receives; retries an event of type `again` once."""

    def process_event(self, db, ev):
        db.cursor().execute(
            "insert into public.seen values (%s, %s, %s, %s, %s, %s)",
            [self.job_name, ev.id, ev.type, ev.data, ev.extra1, ev.retry],
        )
        if ev.type == "again" and not ev.retry:
            ev.tag_retry(0)

    def process_local_event(self, db, batch_id, ev):
        self.process_event(db, ev)


class Consumer(Recording, pgq.Consumer):
    pass


class CoopConsumer(Recording, pgq.CoopConsumer):
    pass


class LocalConsumer(Recording, pgq.LocalConsumer):
    pass


def produce(connection_string):
    connection = psycopg2.connect(connection_string)
    cursor = connection.cursor()
    print(pgq.insert_event(cursor, "q", "single", "data", "1", "2", "3", "4"))
    bulk_insert_events(
        cursor,
        [("bulk", "one", None, NOW), ("bulk", "tab\tnew\nline\\", "x", NOW)],
        ["type", "data", "extra1", "time"],
        "q",
    )
    bulk_insert_events(cursor, [{"ev_data": "three", "ev_time": NOW}], ["ev_data", "ev_time"], "q")
    connection.commit()


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(sys.argv[2])
    else:
        kind = {"consume": Consumer, "coop": CoopConsumer, "local": LocalConsumer}[sys.argv[1]]
        kind("recorder", "source", sys.argv[2:]).start()
