"""Names and rules that producers, consumers and the reconciler of a run share.

An item is an event of a log or a message of a queue, with a name that is unique in the run. Its
body is a JSON object: `item`, `key`, `n` (its position among the items of its key) and `rule`,
which consumers with outcomes follow:

    accept  acknowledged with an effect, after at most a few retries
    reject  rejected at each delivery: dead-lettered, without an effect
    retry   retried at each delivery: dead-lettered after its last attempt, without an effect

A key belongs to one producer, which sends its items in consecutive transactions, so `n` is their
order.
"""

from __future__ import annotations

from typing import NamedTuple

# The first two logs carry the load; `quiet` gets an event now and then, `beats` scheduled events.
LOGS = ("orders", "changes", "quiet", "beats")
QUEUES = ("jobs", "steps")
LOADED = ("orders", "orders", "changes", "jobs", "steps", "quiet")
MAX_ATTEMPTS = 5
LEASE_S = 1.5
SLOT_S = 1.0
CATCH_UP_S = 120.0


class Group(NamedTuple):
    """A share group."""

    log: str
    name: str
    options: dict[str, object]


class Consumer(NamedTuple):
    """A consumer of tick batches, or the subconsumers `members` of one."""

    log: str
    name: str
    retries: bool = False
    members: tuple[str, ...] = ()


OPTIONS = {
    "max_attempts": MAX_ATTEMPTS,
    "max_deliveries": 100,
    "backoff": "constant",
    "backoff_base": "0.1 s",
    "backoff_jitter": False,
}
GROUPS = (
    Group("orders", "plain", OPTIONS),
    Group("orders", "keyed", OPTIONS | {"key": "ev_extra1", "when_waiting": "block"}),
    Group("changes", "other", OPTIONS),
)
CONSUMERS = (
    Consumer("orders", "audit"),
    Consumer("changes", "lake", retries=True),
    Consumer("changes", "team", members=("one", "two")),
    Consumer("quiet", "watch"),
    Consumer("beats", "beat"),
)
# Receivers whose effects are in order for each key.
ORDERED = ("orders/keyed", "orders/audit", "quiet/watch", "steps")
SCHEDULES = {"slots": "jobs", "beats": "beats"}

TABLES = """
create table sent (txn text primary key);
create table effect (
    id bigint generated always as identity primary key,
    consumer text not null, item text not null, key text, n integer, settlement text not null
);
create table fired (name text, slot timestamptz, id bigint);
"""
# `fired` records each slot permanently, in the transaction that fires it.
WATCH_SLOTS = """
create function note_slot() returns trigger language plpgsql set search_path = public as $$ begin
    insert into fired values (new.name, new.slot, new.msg_id);
    return null;
end $$;
create trigger note_slot after insert on sluice.schedule_slot for each row execute function note_slot();
"""
UNWATCH_SLOTS = "drop trigger note_slot on sluice.schedule_slot"


def receivers() -> dict[str, list[str]]:
    """Return the receivers of each log and queue, by the names in their effects."""
    found: dict[str, list[str]] = {name: [] for name in LOGS}
    for group in GROUPS:
        found[group.log].append(f"{group.log}/{group.name}")
    for consumer in CONSUMERS:
        found[consumer.log].append(f"{consumer.log}/{consumer.name}")
    return found | {queue: [queue] for queue in QUEUES}
