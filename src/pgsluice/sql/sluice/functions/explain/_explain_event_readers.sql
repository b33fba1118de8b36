/*
 * For each consumer of the log, up to 100. A position is a snapshot, which the transaction of the event is compared with. A
 * claim of a share group is a part of a window, so an event in the window that is not in an open claim was delivered and
 * settled, or waits for a redelivery.
 */
create or replace function sluice._explain_event_readers(i_log pgq.queue, i_ev_id bigint, i_ev_txid xid8)
returns table (section text, at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    s record;
    v_group sluice.share_group;
    v_claim sluice.claim;
    v_retry_at timestamptz;
begin
    for s in
        select c.co_name, t.*
        from pgq.standing as t
        join pgq.consumer as c on c.co_id = t.sub_consumer
        where t.sub_queue = i_log.queue_id and t.pos_last_snapshot is not null
        order by c.co_name
        limit 100
    loop
        select g.* into v_group from sluice.share_group as g where g.sub_key = s.sub_key;
        if found then
            v_claim := sluice._last_claim(v_group.group_id);
            if not pg_visible_in_snapshot(i_ev_txid, v_claim.upto_snapshot)
                or not pg_visible_in_snapshot(i_ev_txid, v_claim.after_snapshot) and i_ev_id > v_claim.upto_ev_id
            then
                return query values (
                    'reason', v_claim.claimed_at - v_claim.clock_shift, format('Share group %s has not claimed it; its last claim was made', v_group.group_name),
                    jsonb_build_object('cause', 'not claimed', 'group_name', v_group.group_name)
                );
            else
                return query values (
                    'history', null::timestamptz,
                    format('Share group %s has claimed it; sluice.explain_group shows open claims and redeliveries', v_group.group_name),
                    jsonb_build_object('group_name', v_group.group_name)
                );
            end if;
            continue;
        end if;
        select max(r.ev_retry_after) into v_retry_at from pgq.retry_entry as r where r.ev_owner = s.sub_id and r.ev_id = i_ev_id;
        if v_retry_at > clock_timestamp() then
            return query values (
                'reason', v_retry_at, format('Consumer %s retries it', s.co_name),
                jsonb_build_object('cause', 'retry', 'consumer_name', s.co_name)
            );
        elsif s.pos_lost is not null then
            return query values (
                'reason', null::timestamptz, format('The position of consumer %s was given up', s.co_name),
                jsonb_build_object('cause', 'position lost', 'consumer_name', s.co_name)
            );
        elsif pg_visible_in_snapshot(i_ev_txid, s.pos_last_snapshot) then
            return query values (
                'history', null::timestamptz, format('Consumer %s has finished it', s.co_name), jsonb_build_object('consumer_name', s.co_name)
            );
        elsif pg_visible_in_snapshot(i_ev_txid, s.pos_next_snapshot) then
            return query values (
                'reason', s.pos_active, format('It is in batch %s of consumer %s, which was opened', s.pos_batch, s.co_name),
                jsonb_build_object('cause', 'open batch', 'consumer_name', s.co_name, 'batch_id', s.pos_batch)
            );
        else
            return query values (
                'reason', s.pos_active, format('Consumer %s has not reached it; it was last active', s.co_name),
                jsonb_build_object('cause', 'consumer lag', 'consumer_name', s.co_name)
            );
        end if;
    end loop;
end;
$$;

comment on function sluice._explain_event_readers(pgq.queue, bigint, xid8) is
    'Return for each consumer and share group of a log whether it has finished an event.';
revoke execute on function sluice._explain_event_readers(pgq.queue, bigint, xid8) from public;
grant execute on function sluice._explain_event_readers(pgq.queue, bigint, xid8) to pgq_admin, sluice_admin;
