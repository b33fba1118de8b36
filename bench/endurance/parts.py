"""Parts of a long run: their sizes, and the SQL of their set-up, load and accounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgsluice.errors import ConfigurationError

OPTIONS = {
    "endurance_messages": 100_000_000,
    "endurance_events": 300_000_000,
    "endurance_backlog": 200_000,
    "endurance_batch": 2_000,
    "slice_seconds": 3_600,
    "sample_seconds": 10,
    "retained_messages": 2_000_000,
    "retained_partition": 500_000,
    "log_rotation_seconds": 300,
    "updates_per_s": 500,
    "maintain_seconds": 10,
    "naptime_seconds": 60,
    "xids_before_freeze": 100_000,
}
NAME = "endurance"  # of the queue and of the log
CHANGES = "changes"  # the log of captured changes
GROUP = "workers"
CONSUMERS = ("first", "second", "third")
AUDIT = "audit"  # the consumer of captured changes
ROWS = 10_000  # of the captured table
UPDATED = 100  # rows per transaction
DIGITS = 12
WIDTH = 100  # characters of a payload
SENT, CHANGED = "sent", "changed"

ACCOUNTS = """
create schema endurance;
create table endurance.receipt (who text not null, events bigint not null, total numeric not null);
create table endurance.account (id bigint primary key, balance bigint not null, note text not null)
"""
QUEUE = f"select pgmq.create('{NAME}')"
ARCHIVE = f"""
select pgmq.create('{NAME}');
select pgmq.convert_archive_partitioned('{NAME}', %(retained_partition)s::text, %(retained_messages)s::text)
"""
LOG = f"""
select pgq.create_queue(log) from unnest(array['{NAME}', '{CHANGES}']) as log;
select sluice.set_log_options(
    log,
    jsonb_build_object(
        'ticker_max_count', %(endurance_batch)s * 2, 'rotation_period', make_interval(secs => %(log_rotation_seconds)s)
    )
)
from unnest(array['{NAME}', '{CHANGES}']) as log;
select pgq.register_consumer('{NAME}', name) from unnest(array['{"', '".join(CONSUMERS)}']) as name;
select pgq.register_consumer('{CHANGES}', '{AUDIT}');
select sluice.create_group('{NAME}', '{GROUP}');
insert into endurance.account select id, 0, repeat('x', 50) from generate_series(1, {ROWS}) as id;
select sluice.capture('endurance.account', '{CHANGES}')
"""
# Between slices the receipts of each process become one row.
COMPACT = """
with gone as (delete from endurance.receipt returning who, events, total)
insert into endurance.receipt select who, sum(events), sum(total) from gone group by who
"""
READ = """
select ev_data, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_extra1, ev_extra2, ev_extra3, ev_extra4
from pgq.get_batch_events(%s)
"""
RECEIPT = "insert into endurance.receipt values (%s, %s, %s)"
RECEIVED = "select coalesce(sum(events), 0)::bigint from endurance.receipt where who = %s"
ACCOUNTED = "select who, sum(events)::bigint, sum(total) from endurance.receipt group by who"

_PAYLOADS = (
    f"select lpad(n::text, {DIGITS}, '0') || repeat('x', {WIDTH - DIGITS}) as text "
    "from generate_series(%(first)s::bigint, %(last)s::bigint) as n order by n"
)
_RECEIPT = f"""
insert into endurance.receipt
select '{SENT}', count(*), (%(first)s::numeric + %(last)s) / 2 * count(*) from sent
"""
SEND_MESSAGES = f"""
with payloads as ({_PAYLOADS}),
sent as (select from pgmq.send_batch('{NAME}', array(select to_jsonb(text) from payloads)))
{_RECEIPT}
"""
SEND_EVENTS = f"""
with payloads as ({_PAYLOADS}),
sent as (
    select from sluice.insert_events(
        '{NAME}', array_fill('event'::text, array[(%(last)s - %(first)s + 1)::integer]),
        array(select text from payloads)
    )
)
{_RECEIPT}
"""
UPDATE = f"""
with changed as (
    update endurance.account set balance = balance + 1
    where id between %(first)s and %(first)s + {UPDATED - 1}
    returning id
)
insert into endurance.receipt select '{CHANGED}', count(*), 0 from changed
"""


@dataclass(frozen=True)
class Part:
    """One part of the workload.

    Attributes:
        name: Also that of its folder and its result file.
        title: For the result and the plots.
        is_log: True for events of a log, False for messages of a queue.
        keep: What the worker does with messages that are done.
        setup: Statements after the installation.
        target: Option with the number of messages.
    """

    name: str
    title: str
    is_log: bool
    keep: str
    setup: str
    target: str

    @property
    def send(self) -> str:
        """Statement that sends the messages of a range of numbers, with their receipt."""
        return SEND_EVENTS if self.is_log else SEND_MESSAGES

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the processes that must each have every message."""
        return (*CONSUMERS, "worker") if self.is_log else ("worker",)


PARTS = {
    part.name: part
    for part in (
        Part("queue", "work queue, archive off", False, "delete", QUEUE, "endurance_messages"),
        Part("archive", "work queue, partitioned archive", False, "archive", ARCHIVE, "endurance_messages"),
        Part("log", "log, three consumers, share group", True, "archive", LOG, "endurance_events"),
    )
}  # fmt: skip


def chosen(text: str) -> list[Part]:
    """Return the parts with a text in their names.

    Raises:
        ConfigurationError: There is none.
    """
    found = [part for name, part in PARTS.items() if text in name]
    if not found:
        raise ConfigurationError(f"endurance has no part {text!r}; choose from: {', '.join(PARTS)}")
    return found


def number_of(payload: str | bytes) -> int:
    """Return the number of a message."""
    return int(payload[:DIGITS])


def sizes(values: dict[str, int]) -> dict[str, Any]:
    """Return the sizes that a run keeps between its invocations, all except the length of a slice."""
    return {name: number for name, number in values.items() if name != "slice_seconds"}
