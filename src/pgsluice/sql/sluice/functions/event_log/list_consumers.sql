/*
 * The lag is that of the oldest event that the consumer has not finished, also if no tick covers it yet: a consumer that
 * stopped is seen in a log without further events, too. lag_events counts event numbers, including those of rolled back events.
 *
 * Calls: pgq._oldest_events.
 */
create or replace function sluice.list_consumers(
    inout log_name text default null,
    out consumer_name text, out is_keeper boolean, out last_tick bigint,
    out lag_events bigint, out lag_s double precision, out pinned_bytes bigint,
    out open_batch bigint, out idle_s double precision, out lost text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    for v_queue_id in
        select q.queue_id
        from pgq.queue as q
        where (list_consumers.log_name is null or q.queue_name = list_consumers.log_name)
          and (
            exists (select from pgq.subscriber as s where s.sub_queue = q.queue_id)
            or exists (select from sluice.log_policy as p where p.queue_id = q.queue_id)
          )
        order by q.queue_name
    loop
        begin
            return query
            with standing as materialized (
                select s.*, row_number() over (order by s.sub_key) as number
                from pgq.standing as s
                where s.sub_queue = v_queue_id
            ),
            oldest as materialized (
                select pgq._oldest_events(
                    v_queue_id, array_agg(s.pos_last_snapshot order by s.number), array_agg(s.sub_id order by s.number)
                ) as event_at
                from standing as s
            ),
            pinned as materialized (
                select p.consumer_name, p.bytes
                from pgq.queue as q
                cross join lateral pgq._pinned_bytes(
                    v_queue_id, array(select n.number from pgq._segments(v_queue_id) as n (number) where n.number <> q.queue_cur_table)
                ) as p
                where q.queue_id = v_queue_id
            )
            select q.queue_name, c.co_name, coalesce(c.co_name = any (p.keepers), false), s.pos_last_tick,
                case when oldest.event_at[s.number] is null then 0 else greatest(1, pgq._event_seq(q.queue_id) - s.pos_last_seq) end,
                case
                    when isfinite(oldest.event_at[s.number])
                        then greatest(0, extract(epoch from clock_timestamp() - oldest.event_at[s.number])::double precision)
                    else 0
                end,
                coalesce(pinned.bytes, 0),
                s.pos_batch, extract(epoch from clock_timestamp() - s.pos_active)::double precision,
                coalesce(s.pos_lost, case
                    when s.pos_move is null and not exists (select from sluice.share_group as g where g.sub_key = s.sub_key)
                        then (pgq._position(s.sub_key, s.sub_ledger)).pos_lost
                end)
            from standing as s
            join pgq.queue as q on q.queue_id = s.sub_queue
            join pgq.consumer as c on c.co_id = s.sub_consumer
            left join sluice.log_policy as p on p.queue_id = q.queue_id
            cross join oldest
            left join pinned on pinned.consumer_name = c.co_name
            union all
            select q.queue_name, k.name, true, null, null, null, null, null, null, null
            from sluice.log_policy as p
            join pgq.queue as q on q.queue_id = p.queue_id
            cross join unnest(p.keepers) as k (name)
            where q.queue_id = v_queue_id
              and not exists (
                  select
                  from pgq.subscriber as s
                  join pgq.consumer as c on c.co_id = s.sub_consumer
                  where s.sub_queue = q.queue_id and c.co_name = k.name
              )
            order by 2;
            -- The rollback releases the locks: one transaction could not hold those of thousands of logs.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
        end;
    end loop;
end;
$$;

comment on function sluice.list_consumers(text) is
    'Return the consumers of one event log or all: lag, segments kept for them, idle time, and dropped positions.';
revoke execute on function sluice.list_consumers(text) from public;
grant execute on function sluice.list_consumers(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
