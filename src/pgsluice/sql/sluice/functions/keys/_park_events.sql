-- Parked events are not dead-lettered: they wait for an operator.
create or replace function sluice._park_events(i_group sluice.share_group, i_claim_id bigint, i_events sluice.redelivery[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into sluice.dead_letter_event (
        queue_name, consumer_name, claim_id, msg_id, enqueued_at, ev_txid, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, read_ct, reason, error, key, place
    )
    select q.queue_name, i_group.group_name, i_claim_id, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
        e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, 'parked', e.error, e.key, e.place
    from (select * from unnest(i_events) as p order by p.place) as e
    cross join (select l.queue_name from pgq.queue as l where l.queue_id = i_group.queue_id) as q;
end;
$$;

comment on function sluice._park_events(sluice.share_group, bigint, sluice.redelivery[]) is
    'Park events with their key, in the order of the log.';
revoke execute on function sluice._park_events(sluice.share_group, bigint, sluice.redelivery[]) from public;
grant execute on function sluice._park_events(sluice.share_group, bigint, sluice.redelivery[]) to pgq_admin, sluice_admin;
