-- Runs in the transaction that decides it. Parked events are not given up: they wait for an operator, with their key.
create or replace function sluice._dead_letter(
    i_group sluice.share_group, i_claim_id bigint, i_events sluice.redelivery[], i_reason text, i_failure jsonb
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into sluice.dead_letter_event (
        queue_name, consumer_name, claim_id, msg_id, enqueued_at, ev_txid, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, read_ct, reason, error,
        error_type, trace, worker, key, place
    )
    select i_group.log_name, i_group.group_name, i_claim_id, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
        e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, i_reason, e.error,
        i_failure ->> 'error_type', i_failure ->> 'trace', i_failure ->> 'worker',
        case when i_reason = 'parked' then e.key end, case when i_reason = 'parked' then e.place end
    -- In the order of the log.
    from (select p.* from unnest(i_events) with ordinality as p order by p.place, p.ordinality) as e;
end;
$$;

comment on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery[], text, jsonb) is
    'Dead-letter events of a share group; their attempts and deliveries include the current ones. Parked ones keep their key and their place. The failure has error_type, trace and worker, or is null.';
revoke execute on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery[], text, jsonb) from public;
grant execute on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery[], text, jsonb) to pgq_admin, sluice_admin;
