-- Runs in the transaction that decides it.
create or replace function sluice._dead_letter(
    i_group sluice.share_group, i_claim_id bigint, i_event sluice.redelivery, i_reason text, i_error text, i_failure jsonb
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into sluice.dead_letter_event (
        queue_name, consumer_name, claim_id, msg_id, enqueued_at, ev_txid, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, read_ct, reason, error,
        error_type, trace, worker
    )
    values (
        i_group.queue_name, i_group.group_name, i_claim_id, i_event.ev_id, i_event.ev_time, i_event.ev_txid, i_event.ev_type, i_event.ev_data,
        i_event.ev_extra1, i_event.ev_extra2, i_event.ev_extra3, i_event.ev_extra4, i_event.redriven,
        i_event.attempts, i_event.deliveries, i_reason, i_error,
        i_failure ->> 'error_type', i_failure ->> 'trace', i_failure ->> 'worker'
    );
end;
$$;

comment on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery, text, text, jsonb) is
    'Dead-letter an event of a share group; its attempts and deliveries include the current one. The failure has error_type, trace and worker, or is null.';
revoke execute on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery, text, text, jsonb) from public;
grant execute on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery, text, text, jsonb) to pgq_admin, sluice_admin;
