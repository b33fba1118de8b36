create or replace function sluice._write_waiting(i_events sluice.redelivery[], i_is_returned boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.waiting_event_0
        select e.group_id, false, e.key, i_is_returned, e.redelivery_id, e.place, null, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, e.error
        from unnest(i_events) as e;
    else
        insert into sluice.waiting_event_1
        select e.group_id, false, e.key, i_is_returned, e.redelivery_id, e.place, null, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, e.error
        from unnest(i_events) as e;
    end if;
end;
$$;

comment on function sluice._write_waiting(sluice.redelivery[], boolean) is
    'Append events that wait for their key, their redelivery_id as waiting_id. The caller holds the lock of the group.';
revoke execute on function sluice._write_waiting(sluice.redelivery[], boolean) from public;
grant execute on function sluice._write_waiting(sluice.redelivery[], boolean) to pgq_admin, sluice_admin;
