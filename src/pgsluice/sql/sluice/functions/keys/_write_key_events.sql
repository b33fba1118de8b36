create or replace function sluice._write_key_events(i_claim_id bigint, i_events sluice.redelivery[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.key_event_0
        select e.group_id, i_claim_id, e.place, e.key, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, e.error
        from unnest(i_events) as e;
    else
        insert into sluice.key_event_1
        select e.group_id, i_claim_id, e.place, e.key, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, e.error
        from unnest(i_events) as e;
    end if;
end;
$$;

comment on function sluice._write_key_events(bigint, sluice.redelivery[]) is
    'Append events to a claim of a group with keys. The caller holds the lock of the group.';
revoke execute on function sluice._write_key_events(bigint, sluice.redelivery[]) from public;
grant execute on function sluice._write_key_events(bigint, sluice.redelivery[]) to pgq_admin, sluice_admin;
