/*
 * sluice.wake_groups, repeated in the server until a log has new events: no round trip lies between a commit and its
 * notification. The transaction holds a snapshot meanwhile: keep the wait short. A look that finds nothing is rolled back,
 * which releases its locks on tables: maintenance takes them without waiting. Only the end of a transaction makes events
 * visible, so a look is left out while the snapshot stays the same, if the last one was at all logs.
 *
 * Calls: sluice._wake_groups.
 */
create or replace function sluice.await_groups(wait interval, pause interval, out logs integer, out woken integer)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_logs constant bigint := (select count(distinct g.queue_id) from sluice.share_group as g);
    v_share constant integer := 4; -- waits this many times the duration of a look
    v_end constant timestamptz := clock_timestamp() + wait;
    v_began timestamptz;
    v_pause_s double precision;
    v_snapshot text;
    v_seen text;
begin
    loop
        v_began := clock_timestamp();
        v_snapshot := pg_current_snapshot();
        if v_snapshot is distinct from v_seen then
            begin
                select w.logs, w.woken into logs, woken from sluice._wake_groups() as w;
                if woken = 0 then
                    raise sqlstate 'RL000';
                end if;
            exception
                when sqlstate 'RL000' then
                    null;
            end;
            v_seen := case when logs >= v_logs then v_snapshot end;
        end if;
        exit when logs = 0 or woken > 0 or clock_timestamp() >= v_end;
        v_pause_s := greatest(extract(epoch from pause), extract(epoch from clock_timestamp() - v_began) * v_share);
        perform pg_sleep(least(v_pause_s, extract(epoch from v_end - clock_timestamp())));
    end loop;
end;
$$;

comment on function sluice.await_groups(interval, interval) is
    'Do wake_groups every pause until a log has new events, at most for the wait; returns the number of logs with share groups that this session ticks, and how many of them have new events.';
revoke execute on function sluice.await_groups(interval, interval) from public;
grant execute on function sluice.await_groups(interval, interval) to pgq_admin, sluice_admin;
