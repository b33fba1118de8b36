"""Dead letters of a queue and of a share group with equal contents, and filters with what they select."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import psycopg

from support import rows

# Each filter with the ids that it selects of a queue's dead letters, and of a share group's.
FILTERS: list[tuple[dict[str, Any], list[int], list[int]]] = [
    *(
        (chosen, wanted, wanted)
        for chosen, wanted in (
            ({}, [1, 2, 3, 4, 5, 6]),
            ({"dead_letter_ids": [2, 6, 7, 77]}, [2, 6]),
            ({"dead_letter_ids": []}, []),
            ({"msg_ids": [20, 60, 77]}, [2, 6]),
            ({"msg_ids": []}, []),
            ({"reason": "s"}, [5, 6]),
            ({"error_type": "E"}, [3, 6]),
            ({"error_type": ""}, [1, 2, 4, 5]),
            ({"reason": "s", "error_type": "E"}, [6]),
            ({"error": "row # is locked"}, [1, 2, 3, 4, 6]),
            ({"error": "row 2 is locked\nby 9"}, [2]),
            ({"error": "row 2 is locked"}, []),
            ({"error": ""}, [5]),
            ({"since": "2026-01-02 00:00+00", "until": "2026-01-04 00:00+00"}, [2, 3]),
            ({"since": "infinity"}, []),
            ({"matching": "20"}, [2]),
            ({"matching": "4"}, [4]),
            ({"matching": "row 4"}, []),
            ({"matching": None}, [1, 2, 3, 4, 5, 6]),
            (
                {"reason": "r", "error": "row # is locked", "since": "2026-01-02 00:00+00"},
                [2, 3, 4],
            ),
        )
    ),
    ({"message": {"n": 4}}, [4], []),
    ({"headers": {"h": 1}}, [1, 2, 3, 4, 5, 6], []),
    ({"headers": {"h": 2}}, [], []),
    ({"matching": '{"n": 4}'}, [4], []),
    ({"matching": '{"h": 1}', "reason": "s"}, [5, 6], []),
    ({"matching": "H"}, [1, 2, 3, 4, 5, 6], []),
    ({"matching": "ODD"}, [], [1, 3, 5]),
    ({"ev_type": "odd"}, [], [1, 3, 5]),
    ({"ev_type": "even", "reason": "s"}, [], [6]),
]


@dataclass(frozen=True)
class Letters:
    """The dead letters 1 to 6 of a queue `orders`, or of the share group `g` of a log `events`.

    Attributes:
        of: Arguments of an SQL function that select them.
        other: Those that select dead letter 7.
    """

    connection: psycopg.Connection
    is_group: bool
    of: str
    other: str

    def find(self, function: str, arguments: str = "") -> list[int]:
        """Return the ids in the first column of a function's rows."""
        column = "(f.letter).dead_letter_id" if function == "list_dead_letters" else "*"
        query = f"select {column} from sluice.{function}({self.of}{arguments}) as f"
        return [row[0] for row in rows(self.connection, query)]

    def left(self) -> list[int]:
        """Return the ids of all dead letters."""
        query = "select dead_letter_id from sluice.dead_letter order by 1"
        return [row[0] for row in rows(self.connection, query)]

    def wanted(self, case: tuple[dict[str, Any], list[int], list[int]]) -> list[int]:
        """Return the ids that a filter selects."""
        return case[1 + self.is_group]


def filter_argument(chosen: dict[str, Any]) -> str:
    """Return a filter as an argument of an SQL function."""
    return f", filter => '{json.dumps(chosen)}'"


def make_letters(connection: psycopg.Connection, *, is_group: bool) -> Letters:
    """Create the queues `orders` and `again`, the log `events` with the groups `g` and `h`, and dead letters.

    The dead letters 1 to 6 were dead-lettered a day apart; 7 is of another queue or group.
    """
    connection.execute("select pgmq.create('orders'), pgmq.create('again')")
    connection.execute("select pgq.create_queue('events')")
    connection.execute(
        "select sluice.create_group('events', 'g'), sluice.create_group('events', 'h')"
    )
    if is_group:
        names, columns = "'events', 'g'", "ev_txid, ev_type, ev_data, redriven"
        contents = "'9', case n % 2 when 1 then 'odd' else 'even' end, n::text, 0"
        other = "'events', 'h'"
    else:
        # Names of queues are not case-sensitive.
        names, columns = (
            "case n % 2 when 1 then 'orders' else 'Orders' end, null",
            "message, headers",
        )
        contents = "jsonb_build_object('n', n), '{\"h\": 1}'"
        other = "'other', null"
    kept = "queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason"
    connection.execute(
        f"""insert into sluice.dead_letter ({kept}, error_type, error, dead_at, {columns})
        select {names}, n * 10, 3, now(), case when n > 4 then 's' else 'r' end, case n % 3 when 0 then 'E' end,
            case when n <> 5 then format(e'row %s is locked\\nby 9', n) end,
            '2026-01-01 00:00+00'::timestamptz + make_interval(days => n - 1), {contents}
        from generate_series(1, 6) as n""".encode()
    )
    connection.execute(
        f"insert into sluice.dead_letter ({kept}) values ({other}, 1, 1, now(), 'r')".encode()
    )
    return Letters(connection, is_group, "'events', 'g'" if is_group else "'ORDERS', null", other)


def make_many(connection: psycopg.Connection, count: int, owners: int, *, is_group: bool) -> None:
    """Insert dead letters of the queues `q0`, `q1` and so on, or of the groups of these names of the log `q`."""
    names = "'q', 'q' || n %% %s" if is_group else "'q' || n %% %s, null"
    connection.execute(
        f"""insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason)
        select {names}, n, 1, now(), 'r' from generate_series(1, %s) as n""".encode(),
        (owners, count),
    )


def named(owner: str, *, is_group: bool) -> str:
    """Return the arguments that select the dead letters of an owner that `make_many` made."""
    return f"'q', '{owner}'" if is_group else f"'{owner}', null"
