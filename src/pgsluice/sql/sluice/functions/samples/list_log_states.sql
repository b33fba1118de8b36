/*
 * The age of the newest tick grows on an idle log, too: ev_new tells whether events wait for a tick.
 *
 * Calls: pgq._last_tick.
 *
 * Security definer: a monitor may not read the sequences of logs.
 */
create or replace function sluice.list_log_states(
    after_name text default '', qty integer default 1000, search text default '',
    out log_name text, out newest_ev_id bigint, out ev_new bigint, out last_tick_id bigint, out last_tick_at timestamptz,
    out ev_per_s double precision, out event_bytes bigint, out is_paused boolean, out consumers integer, out groups integer
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log pgq.queue;
    v_newest record;
begin
    for v_log in
        select q.*
        from pgq.queue as q
        where q.queue_name > after_name and strpos(lower(q.queue_name), lower(search)) > 0
        order by q.queue_name
        limit qty
    loop
        -- A log that is being dropped, or is broken, must not hide the others.
        begin
            -- Not the functions of the log: a session would compile those of each log.
            execute format(
                'select n.tick_id, n.tick_time, n.tick_event_seq,
                    (n.tick_event_seq - e.tick_event_seq) / nullif(extract(epoch from n.tick_time - e.tick_time), 0)::double precision as per_s
                 from (select t.* from pgq.%1$I as t order by t.tick_id desc limit 1) as n
                 left join lateral (select t.* from pgq.%1$I as t where t.tick_id >= n.tick_id - 20 order by t.tick_id limit 1) as e on true',
                format('tick_%s_%s', v_log.queue_id, v_log.queue_cur_table)
            )
            into v_newest;
            if v_newest.tick_id is null then
                select t.tick_id, t.tick_time, t.tick_event_seq, null::double precision as per_s
                into v_newest
                from pgq._last_tick(v_log.queue_id) as t;
            end if;
            newest_ev_id := coalesce(pg_sequence_last_value(format('pgq.event_%s_id_seq', v_log.queue_id)::regclass), 0);
            return query
                select v_log.queue_name, newest_ev_id, newest_ev_id - v_newest.tick_event_seq, v_newest.tick_id, v_newest.tick_time,
                    v_newest.per_s,
                    (
                        select sum(pg_total_relation_size(to_regclass(format('pgq.event_%s_%s', v_log.queue_id, s.number))))::bigint
                        from generate_series(0, v_log.queue_ntables - 1) as s (number)
                    ),
                    v_log.queue_ticker_paused,
                    (
                        select count(*)::integer
                        from pgq.subscriber as s
                        where s.sub_queue = v_log.queue_id
                          and not exists (select from sluice.share_group as g where g.sub_key = s.sub_key)
                    ),
                    (select count(*)::integer from sluice.share_group as g where g.queue_id = v_log.queue_id);
            -- The rollback releases the locks: one transaction cannot hold those of thousands of logs.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            when query_canceled or insufficient_resources then
                raise; -- the other logs would fail, too
            when others then
                raise warning 'event log % skipped: %', v_log.queue_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
end;
$$;

comment on function sluice.list_log_states(text, integer, text) is
    'Return the figures of event logs by name, at most qty after after_name: newest event id, events since the newest tick, that tick, events per second over the last 20 ticks since the last rotation, bytes of events, and numbers of consumers and share groups; search: only logs whose name contains this text.';
revoke execute on function sluice.list_log_states(text, integer, text) from public;
grant execute on function sluice.list_log_states(text, integer, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
