/*
 * Most logs are idle in most passes of the ticker. The session remembers, in a setting per log, what its last check of the log
 * read (pgq._tick_if_due): the last number of the log's ticks, the time and event number of the last tick, and the time between
 * the last two if it mattered. While the sequence of ticks is where it was, no session has ticked, and the rules of
 * pgq._tick_if_due apply to what is remembered. So one statement, which reads two sequences per log, finds the logs that need
 * a check.
 *
 * Always checked: a log without such a setting, with an open rotation, restored from a dump, with a recorded failure, or without
 * its sequences. If a sequence cannot be read, because its log is being dropped, all are checked.
 */
create or replace function pgq._logs_to_check(i_queue_ids integer[])
returns integer[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select q.queue_id
        from unnest(i_queue_ids) as l (id)
        join pgq.queue as q on q.queue_id = l.id
        left join lateral (
            select string_to_array(nullif(current_setting(format('sluice.ticked_%s', q.queue_id), true), ''), ' ')::double precision[]
            offset 0 -- evaluated once
        ) as m (known) on true
        left join lateral (
            select clock_timestamp() - to_timestamp(m.known[2]), make_interval(secs => m.known[4]),
                pg_sequence_last_value(to_regclass(format('pgq.event_%s_tick_seq', q.queue_id))),
                to_regclass(format('pgq.event_%s_id_seq', q.queue_id))
            where m.known is not null
            offset 0
        ) as s (lag, gap, ticks, event_ids) on true
        left join lateral (
            select coalesce(pg_sequence_last_value(s.event_ids), 0) - m.known[3] where s.event_ids is not null offset 0
        ) as new (events) on true
        where (
            s.ticks = m.known[1]
            and s.lag >= '0'
            and case
                when new.events > 0 then new.events < q.queue_ticker_max_count and s.lag < q.queue_ticker_max_lag
                when new.events is not null then s.lag < q.queue_ticker_max_lag / 2
                    or s.lag < q.queue_ticker_idle_period and s.lag < 2 * s.gap
            end
            and q.queue_switch_step2 is not null
            and (select count(*) from pgq.origin as o where o.queue_id = q.queue_id and o.made_by = o.xmin) = 2
            and not exists (select from sluice.failure as f where f.task = 'tick' and f.queue_name = q.queue_name)
        ) is not true
        order by q.queue_name
    );
exception
    when others then
        return i_queue_ids;
end;
$$;

comment on function pgq._logs_to_check(integer[]) is
    'Return the logs, of some, that pgq.ticker() has to check: of the others this session knows that no tick is due.';
revoke execute on function pgq._logs_to_check(integer[]) from public;
grant execute on function pgq._logs_to_check(integer[]) to pgq_admin, sluice_admin;
