-- Volatile: a STABLE function uses the snapshot of the caller's statement. Security definer: a reader of logs may not read pgmq.meta.
create or replace function sluice.list_newest_samples(kind text)
returns table (
    name text, reader text, taken_at timestamptz, length bigint, ready bigint, in_flight bigint, delayed bigint,
    oldest_ready_s double precision, sent bigint, finished bigint, dead bigint, lag_events bigint, lag_s double precision,
    pinned_bytes bigint, retrying bigint, sent_per_s double precision, finished_per_s double precision
)
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    select o.name, o.reader_name, s.taken_at, s.length, s.ready, s.in_flight, s.delayed, s.oldest_ready_s, s.sent, s.finished, s.dead,
        s.lag_events, s.lag_s, s.pinned_bytes, s.retrying,
        -- A queue that was dropped and created again counts from zero.
        greatest(s.sent - e.sent, 0) / e.age_s, greatest(s.finished - e.finished, 0) / e.age_s
    from (
        -- Slots last 30 minutes, so two of the three have the samples of the last 15, or one.
        select case when newest.slot = older.slot then array[newest.slot] else array[newest.slot, older.slot] end as slots
        from sluice._sample_slot(0, now()) as newest
        cross join sluice._sample_slot(0, now() - interval '15 minutes') as older
    ) as recent
    cross join (
        select m.queue_name::text as name, '' as reader_name, hash_record_extended(row(kind, lower(m.queue_name), ''::text), 0) as id
        from pgmq.meta as m
        where kind = 'queue'
        union all
        select q.queue_name, c.co_name, hash_record_extended(row(kind, q.queue_name, c.co_name), 0)
        from pgq.subscriber as s
        join pgq.queue as q on q.queue_id = s.sub_queue
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where kind = case when s.sub_is_group then 'group' else 'consumer' end
    ) as o
    -- An index reads the newest row of each slot.
    cross join lateral (
        select n.*
        from unnest(recent.slots) with ordinality as slots (slot, number)
        cross join lateral (
            select s.*
            from sluice.sample as s
            where s.slot = slots.slot and s.source_id = o.id and s.taken_at >= now() - interval '5 minutes'
            order by s.taken_at desc
            limit 1
        ) as n
        order by slots.number
        limit 1
    ) as s
    left join lateral (
        select n.sent, n.finished, extract(epoch from s.taken_at - n.taken_at)::double precision as age_s
        from unnest(recent.slots) with ordinality as slots (slot, number)
        cross join lateral (
            select b.taken_at, b.sent, b.finished
            from sluice.sample as b
            where b.slot = slots.slot and b.source_id = o.id
              and b.taken_at <= s.taken_at - interval '50 seconds'
              and b.taken_at >= s.taken_at - interval '10 minutes'
            order by b.taken_at desc
            limit 1
        ) as n
        order by slots.number
        limit 1
    ) as e on true
    order by o.name, o.reader_name;
$$;

comment on function sluice.list_newest_samples(text) is
    'Return the newest sample of each queue, consumer or share group, if it is at most five minutes old, with the rates of sent and finished messages or events in the minute before it. Kind: queue, consumer or group.';
revoke execute on function sluice.list_newest_samples(text) from public;
grant execute on function sluice.list_newest_samples(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
