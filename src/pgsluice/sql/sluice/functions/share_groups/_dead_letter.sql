-- Runs in the transaction that decides it. If the group has a dead-letter log, the dead letter is an event of type `dead` there, with all fields in its
-- data. If that log refuses the event, for example because it exceeds the 256 MB of a JSON string, it is stored in sluice.dead_event with the cause in
-- its error, so that it does not block the group.
create or replace function sluice._dead_letter(
    i_group sluice.share_group, i_claim_id bigint, i_event sluice.redelivery, i_reason text, i_error text
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := (select q.queue_name from pgq.queue as q where q.queue_id = i_group.queue_id);
    v_error text := i_error;
begin
    -- A dropped or closed log must not block the group: then the event goes to sluice.dead_event. The lock prevents a concurrent drop.
    perform
    from pgq.queue as q
    where q.queue_name = i_group.dead_letter_log and not q.queue_disable_insert and q.queue_per_tx_limit is null
    for key share;
    if found then
        begin
            perform pgq.insert_event(
                i_group.dead_letter_log, 'dead',
                jsonb_build_object(
                    'queue_name', v_queue_name, 'group_name', i_group.group_name, 'claim_id', i_claim_id,
                    'ev_id', i_event.ev_id, 'ev_time', i_event.ev_time, 'ev_type', i_event.ev_type, 'ev_data', i_event.ev_data,
                    'ev_extra1', i_event.ev_extra1, 'ev_extra2', i_event.ev_extra2,
                    'ev_extra3', i_event.ev_extra3, 'ev_extra4', i_event.ev_extra4, 'redriven', i_event.redriven,
                    'attempts', i_event.attempts, 'deliveries', i_event.deliveries, 'reason', i_reason, 'error', i_error
                )::text
            );
            return;
        exception
            when others then
                v_error := concat_ws(E'\n', i_error, format('not in log %L: %s (%s)', i_group.dead_letter_log, sqlerrm, sqlstate));
        end;
    end if;
    insert into sluice.dead_event (
        queue_name, group_name, claim_id, ev_id, ev_time, ev_txid, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, deliveries, reason, error
    )
    values (
        v_queue_name, i_group.group_name, i_claim_id, i_event.ev_id, i_event.ev_time, i_event.ev_txid, i_event.ev_type, i_event.ev_data,
        i_event.ev_extra1, i_event.ev_extra2, i_event.ev_extra3, i_event.ev_extra4, i_event.redriven,
        i_event.attempts, i_event.deliveries, i_reason, v_error
    );
end;
$$;

comment on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery, text, text) is
    'Dead-letter an event of a share group; its attempts and deliveries include the current one.';
revoke execute on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery, text, text) from public;
grant execute on function sluice._dead_letter(sluice.share_group, bigint, sluice.redelivery, text, text) to pgq_admin, sluice_admin;
