"""Symptoms of work queues that `pgsluice doctor` reports, as rows; see `doctor.Symptom`.

They read columns that the role sluice_monitor may read, unless a docstring names another role.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from psycopg.sql import quote

from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.doctor import Symptom


class QueueHead(NamedTuple):
    """The first 1,000 messages of a queue, and the 1,000 with the latest visibility timeouts.

    Attributes:
        queue_name: The queue.
        ready: Visible messages among the first.
        ready_since: Time since when the oldest visible message has been visible.
        last_read_at: Time of the last read of a message that is in the queue, or newest in the archive.
        is_retrying: True if failed messages wait for a retry.
        held: Messages that were read long ago, and stay invisible for long.
        held_until: The latest visibility timeout of these.
        held_ids: The msg_ids of these.
        newest_at: Time of the newest message.
    """

    queue_name: str
    ready: int
    ready_since: datetime | None
    last_read_at: datetime | None
    is_retrying: bool
    held: int
    held_until: datetime | None
    held_ids: list[int] | None
    newest_at: datetime | None


def head_queries(per_query: int, held_s: float) -> Call[list[str]]:
    """Return queries that read the heads of all queues with rows, the largest first, some queues in each."""
    return Call(
        """
        select string_agg(
            format(
                'select %%1$L, h.ready, h.ready_since, greatest(h.last_read_at, d.last_read_at, a.last_read_at),
                    d.is_retrying, d.held, d.held_until, d.held_ids,
                    (select n.enqueued_at from pgmq.%%2$I as n order by n.msg_id desc limit 1)
                from (
                    select count(*) filter (where f.vt <= now()) as ready,
                        min(greatest(f.enqueued_at, f.vt)) filter (where f.vt <= now()) as ready_since,
                        max(f.last_read_at) as last_read_at
                    from (
                        select m.enqueued_at, m.vt, m.last_read_at from pgmq.%%2$I as m order by m.msg_id limit 1000
                    ) as f
                ) as h
                cross join (
                    select max(l.last_read_at) as last_read_at,
                        coalesce(bool_or(l.read_ct > 0 and l.last_read_at is null and l.vt > now()), false)
                            as is_retrying,
                        count(*) filter (where l.is_held) as held, max(l.vt) filter (where l.is_held) as held_until,
                        array_agg(l.msg_id order by l.msg_id) filter (where l.is_held) as held_ids
                    from (
                        select m.*, m.last_read_at < now() - interval %%4$L and m.vt > now() + interval %%4$L as is_held
                        from (
                            select e.msg_id, e.read_ct, e.last_read_at, e.vt
                            from pgmq.%%2$I as e
                            where e.vt > e.enqueued_at
                            order by e.vt desc
                            limit 1000
                        ) as m
                    ) as l
                ) as d
                cross join (
                    select max(z.last_read_at) as last_read_at
                    from (select y.last_read_at from pgmq.%%3$I as y order by y.msg_id desc limit 100) as z
                ) as a',
                t.queue_name, t.queue_table, t.archive, make_interval(secs => %s)
            ),
            ' union all ' order by t.place
        )
        from (
            select m.queue_name, q.relname as queue_table, a.relname as archive,
                row_number() over (order by size.bytes desc, m.queue_name) as place
            from pgmq.meta as m
            join pg_class as q on q.oid = to_regclass(format('pgmq.%%I', lower('q_' || m.queue_name)))
            join pg_class as a on a.oid = to_regclass(format('pgmq.%%I', lower('a_' || m.queue_name)))
            cross join lateral (
                select case when q.relkind = 'p'
                    then (select sum(pg_relation_size(p.relid)) from pg_partition_tree(q.oid) as p)
                    else pg_relation_size(q.oid)
                end
            ) as size (bytes)
            where size.bytes > 0
        ) as t
        group by (t.place - 1) / %s
        order by min(t.place)
        """,
        (held_s, per_query),
        lambda rows: [text for (text,) in rows],
    )


def heads(rows: list[tuple[Any, ...]]) -> list[QueueHead]:
    """Return the rows of a query of `head_queries` as records."""
    return [QueueHead(*row) for row in rows]


def started_since(since_s: float) -> Call[list[str]]:
    """Return the queues with a rate limit from which messages were started within this time."""
    return Call(
        "select l.queue_name::text from sluice.queue_settings as l where exists (select from sluice.queue_start as s "
        "where s.limits_id = l.limits_id and s.started_at > clock_timestamp() - make_interval(secs => %s))",
        (since_s,),
        lambda rows: [name for (name,) in rows],
    )


def poison_messages() -> Call[list[Symptom]]:
    """Return for each queue the message that was claimed most often of the first 1,000, if at least 100 times."""
    return Call(
        """
        select 'warn',
            format(
                'queue %%L: message %%s was read %%s times and is never acknowledged', m.queue_name,
                p.msg_id, p.read_ct
            ),
            format('pgsluice queue archive %%L %%s', m.queue_name, p.msg_id)
        from (
            -- Of 10,000 queues nearly all are empty, and a call for each would take seconds.
            select m.queue_name
            from pgmq.meta as m
            join pg_class as q on q.oid = to_regclass(format('pgmq.%%I', lower('q_' || m.queue_name)))
            where q.relkind = 'p' or pg_relation_size(q.oid) > 0
            offset 0
        ) as m
        cross join lateral sluice.poison_message(m.queue_name, null::bigint) as p
        order by m.queue_name
        """,
        (),
        record(Symptom),
    )


def notify_triggers() -> Call[list[Symptom]]:
    """Return the queues with notifications whose trigger is missing or disabled."""
    return Call(
        """
        select 'warn', format('queue %%L has notifications enabled, and no trigger that sends them', t.queue_name),
            format('select pgmq.enable_notify_insert(%%L, %%s)', t.queue_name, t.throttle_interval_ms)
        from pgmq.notify_insert_throttle as t
        cross join lateral to_regclass(format('pgmq.%%I', lower('q_' || t.queue_name))) as q (oid)
        where q.oid is not null
          and not exists (
              select
              from pg_trigger as g
              where g.tgrelid = q.oid
                and g.tgname = 'trigger_notify_queue_insert_listeners'
                and g.tgenabled in ('O', 'A')
          )
        order by t.queue_name
        """,
        (),
        record(Symptom),
    )


def storage_settings() -> Call[list[Symptom]]:
    """Return the tables of queues with autovacuum disabled, or without the settings of this release."""
    return Call(
        """
        with recursive part (oid) as (
            select to_regclass(format('pgmq.%%I', lower(kind.prefix || m.queue_name)))::oid
            from pgmq.meta as m
            cross join (values ('q_'), ('a_')) as kind (prefix)
            union
            select i.inhrelid from part as p join pg_inherits as i on i.inhparent = p.oid
        )
        select 'warn',
            format(
                'table %%s has %%s', c.oid::regclass,
                case when is_off.value then 'autovacuum disabled' else 'no settings of autovacuum for a queue' end
            ),
            case when is_off.value
                then format('alter table %%s reset (autovacuum_enabled)', c.oid::regclass)
                else format(
                    'alter table %%s set (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, '
                    'autovacuum_vacuum_cost_delay = 0)', c.oid::regclass
                )
            end
        from part as p
        join pg_class as c on c.oid = p.oid
        cross join lateral (
            select exists (
                select
                from pg_options_to_table(c.reloptions) as o
                where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean
            )
        ) as is_off (value)
        where c.relkind = 'r'
          and (
              is_off.value
              or c.relname like 'q\\_%%' and coalesce(array_to_string(c.reloptions, ' '), '') !~ 'autovacuum'
          )
        order by c.relname
        """,
        (),
        record(Symptom),
    )


def large_archives(size_bytes: int) -> Call[list[Symptom]]:
    """Return the archives of this size without a retention."""
    return Call(
        """
        select 'warn',
            format('the archive of queue %%L has %%s and no retention', m.queue_name, pg_size_pretty(size.bytes)),
            format('pgsluice queue set %%L archive_retention=30d', m.queue_name)
        from pgmq.meta as m
        join pg_class as a on a.oid = to_regclass(format('pgmq.%%I', lower('a_' || m.queue_name)))
        cross join lateral (
            select case when a.relkind = 'p'
                then (select sum(pg_total_relation_size(t.relid)) from pg_partition_tree(a.oid) as t)
                else pg_total_relation_size(a.oid)
            end
        ) as size (bytes)
        where size.bytes > %s
          and not exists (
              select
              from sluice.queue_settings as s
              where s.queue_name = m.queue_name and s.archive_retention is not null
          )
          and not exists (
              select
              from sluice.partitioned_table as p
              where p.table_name = lower('a_' || m.queue_name)::name and p.retention_interval is not null
          )
        order by size.bytes desc
        """,
        (size_bytes,),
        record(Symptom),
    )


def without_fifo_index(size_bytes: int) -> Call[list[tuple[str, str]]]:
    """Return the queues of this size without FIFO indexes, and a query each: True if its first messages have groups."""
    return Call(
        """
        select m.queue_name::text, format(
            'select exists (
                select
                from (select q.headers from pgmq.%%I as q order by q.msg_id limit 100) as first
                where first.headers ->> ''x-pgmq-group'' is not null
            )',
            c.relname
        )
        from pgmq.meta as m
        join pg_class as c on c.oid = to_regclass(format('pgmq.%%I', lower('q_' || m.queue_name)))
        where c.relkind = 'r'
          and pg_relation_size(c.oid) > %s
          and (
              select count(*)
              from pg_index as i
              join pg_class as n on n.oid = i.indexrelid
              join pg_am as a on a.oid = n.relam
              where i.indrelid = c.oid
                and n.relname in (c.relname || '_fifo_idx', c.relname || '_fifo_read_idx')
                and a.amname = 'btree'
                and i.indisvalid
          ) < 2
          -- Limits per key have indexes of their own, and are not read by groups.
          and not exists (
              select
              from sluice.queue_settings as l
              where l.queue_name = m.queue_name and num_nonnulls(l.key_concurrency, l.when_waiting) > 0
          )
        order by m.queue_name
        """,
        (size_bytes,),
        lambda rows: [(name, query) for name, query in rows],
    )


def fifo_symptom(queue_name: str) -> Symptom:
    """Return the symptom of a queue with groups and without FIFO indexes."""
    return Symptom(
        "warn",
        f"the messages of queue {queue_name!r} have groups, and the queue no FIFO indexes",
        f"select pgmq.create_fifo_index({quote(queue_name)})",
    )


def make_visible(queue_name: str, msg_ids: list[int]) -> str:
    """Return the statement that makes messages visible."""
    ids = ",".join(map(str, msg_ids))
    return f"select from pgmq.set_vt({quote(queue_name)}, '{{{ids}}}'::bigint[], 0)"


def may_read_keys() -> Call[bool]:
    """True if this role may read the keys of parked messages."""
    return Call("select has_column_privilege('sluice.parked_key', 'key', 'select')", (), scalar)


def parked_keys() -> Call[list[Symptom]]:
    """Return the parked keys of queues; needs sluice_reader."""
    return Call(
        """
        select 'warn',
            format(
                'queue %%L: the key of message %%s has been parked since %%s', l.queue_name, p.msg_id,
                date_trunc('second', p.parked_at)
            ),
            format('pgsluice queue retry --key=%%L %%L', p.key, l.queue_name)
        from sluice.parked_key as p
        join sluice.queue_settings as l on l.limits_id = p.limits_id
        order by p.parked_at
        limit 1000
        """,
        (),
        record(Symptom),
    )


def parked_key_counts() -> Call[list[Symptom]]:
    """Return the queues with parked keys, without the keys."""
    return Call(
        """
        select 'warn', format('queue %%L: parked keys: %%s', l.queue_name, count(*)),
            format('pgsluice queue show %%L', l.queue_name)
        from sluice.parked_key as p
        join sluice.queue_settings as l on l.limits_id = p.limits_id
        group by l.queue_name
        order by l.queue_name
        """,
        (),
        record(Symptom),
    )


def new_dead_letters(count: int, within_s: float) -> Call[list[Symptom]]:
    """Return queues, groups and consumers with this number of dead letters within this time; needs sluice_reader."""
    return Call(
        """
        select 'warn',
            format(
                '%%s: new dead letters: %%s%%s, since %%s, the last with: %%s',
                case when n.consumer_name is null then format('queue %%L', n.queue_name)
                    else format('consumer %%L of log %%L', n.consumer_name, n.queue_name)
                end,
                count(*),
                case when count(*) >= 1000 then ' or more' else '' end, date_trunc('second', min(n.dead_at)),
                left(
                    split_part((array_agg(coalesce(n.error, n.reason) order by n.dead_letter_id desc))[1], chr(10), 1),
                    100
                )
            ),
            case when n.consumer_name is null then format('pgsluice dead-letters redrive %%L --all', n.queue_name)
                else format('pgsluice dead-letters redrive %%L --consumer %%L --all', n.queue_name, n.consumer_name)
            end
        from (select d.* from sluice.dead_letter as d order by d.dead_letter_id desc limit 1000) as n
        where n.dead_at > clock_timestamp() - make_interval(secs => %s)
        group by n.queue_name, n.consumer_name
        having count(*) >= %s
        order by count(*) desc
        """,
        (within_s, count),
        record(Symptom),
    )


def default_partitions() -> Call[list[tuple[str, str]]]:
    """Return the partitioned tables, and a query each: True if its default partition has rows."""
    return Call(
        """
        select p.table_name::text, format('select exists (select from %%s)', t.partdefid::regclass)
        from sluice.partitioned_table as p
        join pg_partitioned_table as t on t.partrelid = to_regclass(format('pgmq.%%I', p.table_name))
        where t.partdefid <> 0 and pg_relation_size(t.partdefid) > 0
        order by p.table_name
        """,
        (),
        lambda rows: [(name, query) for name, query in rows],
    )


def default_partition_symptom(table_name: str) -> Symptom:
    """Return the symptom of a partitioned table with rows in its default partition."""
    return Symptom(
        "warn",
        f"rows of pgmq.{table_name} are in its default partition: their partition was not created in time",
        "select sluice.maintain()",
    )


def orphan_stages(age_s: float) -> Call[list[Symptom]]:
    """Return the stages of Spark's writes that no commit has used for this time, and tables of stages that are gone."""
    return Call(
        """
        select 'warn',
            case when s.stage_id is null
                then format('table %%s belongs to no stage', c.oid::regclass)
                else format('stage %%s of sink %%L is from %%s', s.stage_id, s.sink_id, date_trunc('second', s.made_at))
            end,
            format('drop table %%s', c.oid::regclass)
                || case when s.stage_id is null then ''
                    else format('; delete from sluice.stage where stage_id = %%s', s.stage_id)
                end
        from pg_class as c
        left join sluice.stage as s on c.relname = 'stage_' || s.stage_id
        where c.relnamespace = to_regnamespace('sluice')
          and c.relkind = 'r'
          and c.relname ~ '^stage_[0-9]+$'
          and (s.stage_id is null or s.made_at < clock_timestamp() - make_interval(secs => %s))
        order by c.relname
        """,
        (age_s,),
        record(Symptom),
    )
