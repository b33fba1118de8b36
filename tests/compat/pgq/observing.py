"""Observable results and effects of a statement on PgQ and on pgsluice, for comparison.

Times and ages may differ by the time since both sessions started, however busy the machine is.
Transaction ids and snapshots are not compared, nor are detail and hint, which PgQ does not have.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

# PgQ raises all of its own errors with these codes; ours have specific ones.
CODES_OF_PGQ = {"P0001", "XX000"}
DISTANT_S = 10_000_000
# Columns with ages.
AGES = {"lag", "last_seen", "ticker_lag"}
# Columns with transaction ids.
TRANSACTION_IDS = {"ev_txid"}
STATE = {
    "queue": """
        select q.queue_id, q.queue_name, q.queue_ntables, q.queue_cur_table, q.queue_rotation_period, q.queue_switch_time,
            q.queue_switch_step2 is null, q.queue_external_ticker, q.queue_disable_insert, q.queue_ticker_paused,
            q.queue_ticker_max_count, q.queue_ticker_max_lag, q.queue_ticker_idle_period, q.queue_per_tx_limit,
            q.queue_data_pfx, q.queue_event_seq, q.queue_tick_seq, q.queue_extra_maint
        from pgq.queue as q order by q.queue_id
    """,
    # PgQ does not count the first event of a queue; from the second on the counts are the same.
    "tick": """
        select t.tick_queue, t.tick_id, t.tick_time, greatest(t.tick_event_seq, 1)
        from pgq.tick as t order by t.tick_queue, t.tick_id
    """,
    "consumer": "select c.co_id, c.co_name from pgq.consumer as c order by c.co_id",
    "subscription": """
        select s.sub_id, s.sub_queue, s.sub_consumer, s.sub_last_tick, s.sub_active, s.sub_batch, s.sub_next_tick
        from pgq.subscription as s order by s.sub_queue, s.sub_consumer
    """,
    "retry_queue": """
        select r.ev_retry_after, r.ev_queue, r.ev_id, r.ev_time, r.ev_owner, r.ev_retry,
            r.ev_type, r.ev_data, r.ev_extra1, r.ev_extra2, r.ev_extra3, r.ev_extra4
        from pgq.retry_queue as r order by r.ev_owner, r.ev_id
    """,
    "events": """
        select e.tableoid::regclass::text, e.ev_id, e.ev_time, e.ev_owner, e.ev_retry,
            e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
        from pgq.event_template as e order by e.tableoid::regclass::text collate "C", e.ev_id, e.ev_txid
    """,
}


class Near:
    """A time or an age in seconds; equal if they differ by at most the time since `since`.

    Both sessions run a statement within that time, so what they store or return differs by less.
    """

    def __init__(self, at_s: float, since: datetime) -> None:
        self.at_s = at_s
        self.since = since
        self.read_at = datetime.now(UTC)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Near):
            return NotImplemented
        passed = max(self.read_at, other.read_at) - min(self.since, other.since)
        return abs(self.at_s - other.at_s) <= passed.total_seconds()

    def __hash__(self) -> int:
        raise TypeError("nearly equal times have no common hash")

    def __repr__(self) -> str:
        return f"{self.at_s:.0f} s"


def prepare(connection: psycopg.Connection, since: datetime) -> None:
    """Make a session return times as `Near`; infinities and the distant past stay text."""

    class NearLoader(TextLoader):
        def load(self, data: bytes) -> Any:
            text = super().load(data)
            assert isinstance(text, str)
            try:
                at = datetime.fromisoformat(text)
            except ValueError:
                return text
            is_distant = (at - since).total_seconds() < -DISTANT_S
            return text if is_distant else Near(at.timestamp(), since)

    connection.adapters.register_loader("timestamptz", NearLoader)
    connection.execute("set client_min_messages = notice")
    connection.execute("set timezone = 'UTC'")


def outcome(connection: psycopg.Connection, statement: str, since: datetime) -> dict[str, Any]:
    """Return the result for a caller: columns with types, rows, notices, or the error's text."""
    notices: list[tuple[str | None, str | None]] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        notices.append((diagnostic.severity, diagnostic.message_primary))

    connection.add_notice_handler(note)
    try:
        cursor = connection.execute(statement)
        description = cursor.description or ()
        rows = cursor.fetchall() if description else []
    except psycopg.Error as error:
        return {
            "error": without_transaction_ids(error.diag.message_primary or str(error)),
            "code": error.sqlstate,
            "notices": notices,
        }
    finally:
        connection.remove_notice_handler(note)
    names = [column.name for column in description]
    return {
        "columns": [(column.name, column.type_display) for column in description],
        "rows": [comparable(names, row, since) for row in rows],
        "notices": notices,
    }


def comparable(names: list[str], row: tuple[Any, ...], since: datetime) -> tuple[Any, ...]:
    return tuple(
        comparable_value(name, value, since) for name, value in zip(names, row, strict=True)
    )


def comparable_value(name: str, value: Any, since: datetime) -> Any:
    if value is None:
        return None
    if name in TRANSACTION_IDS:
        return "a transaction id" if isinstance(value, int) and value > 0 else value
    if name in AGES:
        return Near(value.total_seconds(), since)
    if name == "ev_per_sec":
        return "a rate" if value > 0 else value
    return value


def without_transaction_ids(message: str) -> str:
    return re.sub(r"(xmin|xmax|txid|step1|current)=\d+", r"\1=…", message)


def state(connection: psycopg.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, with the columns that must be equal."""
    if connection.info.transaction_status == TransactionStatus.INERROR:
        return {}
    return {table: connection.execute(query).fetchall() for table, query in STATE.items()}


def unlike(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, str]:
    """Return the differences between two results or states."""
    if theirs.get("code") in CODES_OF_PGQ:
        mine, theirs = mine | {"code": None}, theirs | {"code": None}
    return {
        key: f"{key}: ours {only(mine.get(key), theirs.get(key))} "
        f"PgQ {only(theirs.get(key), mine.get(key))}"
        for key in sorted(mine.keys() | theirs.keys())
        if mine.get(key) != theirs.get(key)
    }


def only(here: Any, there: Any) -> Any:
    """Return the items missing in the other list; all if only order and repetition differ."""
    if not isinstance(here, list) or not isinstance(there, list):
        return here
    if all(one in there for one in here) and all(one in here for one in there):
        return here
    return [one for one in here if one not in there]
