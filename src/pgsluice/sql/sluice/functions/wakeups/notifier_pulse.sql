/*
 * The first step of a notifier's round: may it lead, and in which queues has a send begun?
 *
 * Looking into a thousand queues takes a tenth of a second; reading a thousand sequences takes five milliseconds. So a
 * round reads the sequences, and looks only where one has moved, or where something becomes due.
 *
 * The leader is who looked last, as long as that is recent: were it whoever gets the lock, notifiers would take turns,
 * none would know what the other has announced, and all would be announced twice.
 *
 * Calls: sluice._lock_notifier. Writes: sluice.notifier_turn, outside of the transaction.
 */
create or replace function sluice.notifier_pulse(
    notifier integer, standby interval, id_sequences oid[],
    out is_leader boolean, out server_time timestamptz, out last_ids bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '20ms'
as $$
declare
    v_number_bits constant integer := 20;
    v_number_mask constant bigint := (1::bigint << v_number_bits) - 1;
    v_now_ms bigint := floor(extract(epoch from clock_timestamp()) * 1000);
    v_turn bigint;
    v_age_ms bigint;
begin
    is_leader := false;
    server_time := clock_timestamp();
    if not sluice._lock_notifier(false) then
        return;
    end if;
    v_turn := pg_sequence_last_value('sluice.notifier_turn');
    v_age_ms := v_now_ms - (v_turn >> v_number_bits);
    -- A turn of the future is that of another clock, before a failover.
    if v_age_ms >= 0
        and v_age_ms < extract(epoch from standby) * 1000
        and (v_turn & v_number_mask) <> (notifier & v_number_mask)
    then
        return;
    end if;
    perform setval('sluice.notifier_turn', (v_now_ms << v_number_bits) | (notifier & v_number_mask));
    is_leader := true;

    begin
        select array_agg(pg_sequence_last_value(c.oid) order by s.position)
        into last_ids
        from unnest(id_sequences) with ordinality as s (id_sequence, position)
        left join pg_class as c on c.oid = s.id_sequence;
    exception
        -- A queue is being dropped, or was right now.
        when lock_not_available or internal_error then
            last_ids := null;
    end;
end;
$$;

comment on function sluice.notifier_pulse(integer, interval, oid[]) is
    'Whether this notifier leads, which it does unless another one has looked within the standby time; and if so the last id of each sequence, or null for all when one is being dropped.';
revoke execute on function sluice.notifier_pulse(integer, interval, oid[]) from public;
grant execute on function sluice.notifier_pulse(integer, interval, oid[]) to sluice_admin, sluice_reader;
