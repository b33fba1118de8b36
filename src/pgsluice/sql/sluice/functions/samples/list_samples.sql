-- Volatile: a STABLE function uses the snapshot of the caller's statement.
create or replace function sluice.list_samples(
    kind text, name text, since timestamptz default null, reader_name text default null, until timestamptz default null,
    every interval default null
)
returns table (
    taken_at timestamptz, reader text, length bigint, ready bigint, in_flight bigint, delayed bigint, oldest_ready_s double precision,
    sent bigint, finished bigint, dead bigint, lag_events bigint, lag_s double precision, pinned_bytes bigint, retrying bigint
)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_since constant timestamptz := coalesce(since, now() - interval '1 hour');
    v_resolution constant integer := case
        when every is not null then
            case when every < interval '1 minute' then 0 when every < interval '15 minutes' then 1 else 2 end
        when v_since >= now() - interval '1 hour' then 0
        when v_since >= now() - interval '1 day' then 1
        else 2
    end;
    v_readers text[];
    v_ids bigint[];
begin
    if kind is null or kind not in ('queue', 'queues', 'consumer', 'group') then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('%L is not a kind of samples', kind),
            hint = 'use queue, queues, consumer or group';
    end if;
    v_readers := case
        when kind in ('queue', 'queues') then array['']
        when list_samples.reader_name is not null then array[list_samples.reader_name]
        else array(
            select c.co_name
            from pgq.subscriber as s
            join pgq.queue as q on q.queue_id = s.sub_queue
            join pgq.consumer as c on c.co_id = s.sub_consumer
            where q.queue_name = name and kind = case when s.sub_is_group then 'group' else 'consumer' end
        )
    end;
    v_ids := array(
        select hash_record_extended(row(kind, case kind when 'queue' then lower(name) when 'queues' then '' else name end, r.named), 0)
        from unnest(v_readers) with ordinality as r (named, number)
        order by r.number
    );
    return query
        select s.taken_at, o.reader_name, s.length, s.ready, s.in_flight, s.delayed, s.oldest_ready_s, s.sent, s.finished, s.dead,
            s.lag_events, s.lag_s, s.pinned_bytes, s.retrying
        from unnest(v_readers, v_ids) as o (reader_name, id)
        join sluice.sample as s on s.source_id = o.id
        where s.slot between 3 * v_resolution and 3 * v_resolution + 2
          and s.taken_at >= v_since
          and (until is null or s.taken_at < until)
        order by o.reader_name, s.taken_at;
end;
$$;

comment on function sluice.list_samples(text, text, timestamptz, text, timestamptz, interval) is
    'Return the samples of a queue, or of the consumers or share groups of a log, from since, an hour ago by default, to until: every 10 seconds of the last hour, every minute of the last day, every 15 minutes of the last month, or as given by every. Kind: queue; queues, all together, whatever the name; consumer; or group.';
revoke execute on function sluice.list_samples(text, text, timestamptz, text, timestamptz, interval) from public;
grant execute on function sluice.list_samples(text, text, timestamptz, text, timestamptz, interval)
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
