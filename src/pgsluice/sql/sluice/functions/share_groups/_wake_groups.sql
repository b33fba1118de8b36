-- A claim needs no tick, because it takes its own snapshot. So sessions that wait for a claim are notified as soon as there is
-- an event, without the cost of a tick: a row, and a batch for every consumer.
--
-- Of several tickers, the one that made the newest tick of a log is responsible for it. So each event notifies once. The state of a log is kept in session
-- settings, as in sluice.tick.
create or replace function sluice._wake_groups(out logs integer, out woken integer)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_setting text;
    v_woken text[]; -- this session's last tick, and a snapshot: the events that it sees have been notified
    v_is_new boolean;
    -- A transaction could not hold the locks of thousands of logs. It keeps the locks of the two sequences of each of v_logs_max logs,
    v_logs_max constant integer := greatest(sluice._lock_slots() / 8, 2);
    -- and those of the tables of v_kept_max logs. After these, a log without new events is read in a subtransaction that is rolled back, which releases
    -- the table locks. The next calls process the rest, so the order of the logs is random.
    v_kept_max constant integer := greatest(sluice._lock_slots() / 8 / 25, 1);
    v_is_many constant boolean := (select count(*) from sluice.share_group) > v_kept_max;
begin
    logs := 0;
    woken := 0;
    for v_queue_id in
        select q.queue_id
        from pgq.queue as q
        where exists (select from sluice.share_group as g where g.queue_id = q.queue_id)
        order by case when v_is_many then random() end
    loop
        exit when woken = v_kept_max or logs = v_logs_max;
        -- An error in one log must not stop the others; sluice.tick reads the same tables and reports it.
        begin
            v_is_new := false;
            v_setting := format('sluice.woken_%s', v_queue_id);
            v_woken := string_to_array(nullif(current_setting(v_setting, true), ''), ' ');
            continue when v_woken is null;
            logs := logs + 1;
            if current_setting(format('sluice.settled_%s', v_queue_id), true)
                    is distinct from pg_sequence_last_value(format('pgq.event_%s_id_seq', v_queue_id)::regclass)::text
                and v_woken[1]::bigint = pg_sequence_last_value(format('pgq.event_%s_tick_seq', v_queue_id)::regclass)
            then
                execute format('select pgq.%I($1, pg_current_snapshot())', format('event_%s_any', v_queue_id))
                using v_woken[2]::pg_snapshot
                into v_is_new;
            end if;
            if v_is_new then
                perform pgq._notify_tick(v_queue_id, null::bigint);
                perform set_config(v_setting, format('%s %s', v_woken[1], pg_current_snapshot()), false);
                woken := woken + 1;
            elsif logs > v_kept_max then
                raise sqlstate 'RL000';
            end if;
        exception
            when others then
                null;
        end;
    end loop;
end;
$$;

comment on function sluice._wake_groups() is
    'Notify the sessions that wait for a claim on a log with new events; returns the number of logs with share groups that this session ticks, of thousands only a part, and how many of them have new events.';
revoke execute on function sluice._wake_groups() from public;
grant execute on function sluice._wake_groups() to pgq_admin, sluice_admin;
