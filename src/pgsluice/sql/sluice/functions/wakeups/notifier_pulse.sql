/*
 * The first step of a notifier's cycle: leader election, and detection of queues with new sends.
 *
 * Polling a thousand queues takes 0.1 s; reading a thousand sequences takes 5 ms. So a cycle reads the sequences, and
 * polls only queues whose sequence has moved or whose messages become due.
 *
 * The lock orders the calls of sluice.lead. If each holder of the lock led, notifiers would alternate without knowing each
 * other's announcements, and announce everything twice.
 *
 * Calls: sluice._lock_notifier, sluice.lead.
 */
create or replace function sluice.notifier_pulse(
    notifier integer, standby interval, id_sequences oid[],
    out is_leader boolean, out server_time timestamptz, out last_ids bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '20ms'
as $$
begin
    server_time := clock_timestamp();
    is_leader := sluice._lock_notifier(false) and sluice.lead('notifier'::text, notifier, standby);
    if not is_leader then
        return;
    end if;
    begin
        select array_agg(pg_sequence_last_value(c.oid) order by s.position)
        into last_ids
        from unnest(id_sequences) with ordinality as s (id_sequence, position)
        left join pg_class as c on c.oid = s.id_sequence;
    exception
        -- A queue is being dropped, or was just dropped.
        when lock_not_available or internal_error then
            last_ids := null;
    end;
end;
$$;

comment on function sluice.notifier_pulse(integer, interval, oid[]) is
    'Return true if this notifier leads, which it does unless another one has polled within the standby time; then also the last id of each sequence, or null for all if one is being dropped.';
revoke execute on function sluice.notifier_pulse(integer, interval, oid[]) from public;
grant execute on function sluice.notifier_pulse(integer, interval, oid[]) to sluice_admin, sluice_reader;
