create or replace function pgq.get_queue_info(
    i_queue_name text,
    out queue_name text, out queue_ntables integer, out queue_cur_table integer, out queue_rotation_period interval,
    out queue_switch_time timestamptz, out queue_external_ticker boolean, out queue_ticker_paused boolean,
    out queue_ticker_max_count integer, out queue_ticker_max_lag interval, out queue_ticker_idle_period interval,
    out ticker_lag interval, out ev_per_sec double precision, out ev_new bigint, out last_tick_id bigint
)
returns setof record
language plpgsql
stable
security definer -- the number of new events comes from a sequence that PUBLIC may not read
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_tick pgq.tick;
    v_latest pgq.tick;
    v_earlier pgq.tick;
    v_events bigint;
begin
    for v_queue in
        select q.*
        from pgq.queue as q
        where i_queue_name is null or q.queue_name = i_queue_name
        order by q.queue_name
    loop
        -- A log with a missing table or sequence must not hide the others.
        begin
            -- Not through the functions of the log: before PostgreSQL 17 the lookup of a function by name takes longer with
            -- each function that the session has looked up.
            v_latest := null;
            v_earlier := null;
            for v_tick in
                execute format(
                    'select t.* from pgq.%I as t order by t.tick_id desc limit 21',
                    format('tick_%s_%s', v_queue.queue_id, v_queue.queue_cur_table)
                )
            loop
                if v_latest.tick_id is null then
                    v_latest := v_tick;
                end if;
                exit when v_tick.tick_id < v_latest.tick_id - 20;
                v_earlier := v_tick;
            end loop;
            -- The current segment has fewer ticks: some are in earlier segments.
            if (v_earlier.tick_id <= greatest(v_latest.tick_id - 20, 1)) is not true then
                v_latest := pgq._last_tick(v_queue.queue_id);
                execute format('select t.* from pgq.%I($1) as t', format('tick_%s_after', v_queue.queue_id))
                using v_latest.tick_id - 21
                into v_earlier;
            end if;
            v_events := coalesce(pg_sequence_last_value(format('pgq.event_%s_id_seq', v_queue.queue_id)::regclass), 0);
            queue_name := v_queue.queue_name;
            queue_ntables := v_queue.queue_ntables;
            queue_cur_table := v_queue.queue_cur_table;
            queue_rotation_period := v_queue.queue_rotation_period;
            queue_switch_time := v_queue.queue_switch_time;
            queue_external_ticker := v_queue.queue_external_ticker;
            queue_ticker_paused := v_queue.queue_ticker_paused;
            queue_ticker_max_count := v_queue.queue_ticker_max_count;
            queue_ticker_max_lag := v_queue.queue_ticker_max_lag;
            queue_ticker_idle_period := v_queue.queue_ticker_idle_period;
            ticker_lag := clock_timestamp() - v_latest.tick_time;
            ev_per_sec := (v_latest.tick_event_seq - v_earlier.tick_event_seq)
                / nullif(date_part('epoch', v_latest.tick_time - v_earlier.tick_time), 0);
            ev_new := v_events - v_latest.tick_event_seq;
            last_tick_id := v_latest.tick_id;
            return next;
            -- The rollback releases the locks on tables and indexes: one transaction cannot hold those of thousands of logs.
            -- That on the sequence of events, one for each log, is held until the end.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            when undefined_table or undefined_function then
                if i_queue_name is not null then
                    raise;
                end if;
                raise warning 'event log % skipped: %', v_queue.queue_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
end;
$$;

comment on function pgq.get_queue_info(text) is
    'Return settings and state of one event log, or of all if the name is null; ev_per_sec is over the last 20 ticks.';
revoke execute on function pgq.get_queue_info(text) from public;
grant execute on function pgq.get_queue_info(text) to public;

create or replace function pgq.get_queue_info(
    out queue_name text, out queue_ntables integer, out queue_cur_table integer, out queue_rotation_period interval,
    out queue_switch_time timestamptz, out queue_external_ticker boolean, out queue_ticker_paused boolean,
    out queue_ticker_max_count integer, out queue_ticker_max_lag interval, out queue_ticker_idle_period interval,
    out ticker_lag interval, out ev_per_sec double precision, out ev_new bigint, out last_tick_id bigint
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select * from pgq.get_queue_info(null);
$$;

comment on function pgq.get_queue_info() is
    'Return settings and state of all event logs, by name.';
revoke execute on function pgq.get_queue_info() from public;
grant execute on function pgq.get_queue_info() to public;
