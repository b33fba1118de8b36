/*
 * See sluice.explain_queue for the rows. Up to 100 consumers and share groups each have a row: the event is finished by it, in an
 * open batch, claimed, or not reached yet. A position is a snapshot, which the transaction of the event is compared with. A claim
 * of a share group is a part of a window, so an event in the window that is not in an open claim was delivered and settled, or
 * waits for a redelivery; share groups are seen as of their last claim.
 *
 * Calls: sluice._find_event, sluice.explain_ticks.
 */
create or replace function sluice.explain_event(log_name text, ev_id bigint)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_log constant pgq.queue := pgq._require_log(log_name);
    v_newest constant bigint := pgq._event_seq(v_log.queue_id);
    v_tick constant pgq.tick := pgq._last_tick(v_log.queue_id);
    e record;
    s record;
    v_state text;
    v_group sluice.share_group;
    v_claim sluice.claim;
    v_retry_at timestamptz;
begin
    select f.* into e from sluice._find_event(v_log.queue_id, ev_id) as f;
    v_state := case
        when ev_id < 1 or ev_id > v_newest then 'unknown'
        when e.ev_txid is null then 'gone'
        when pg_visible_in_snapshot(e.ev_txid, v_tick.tick_snapshot) then 'readable'
        else 'before a tick'
    end;
    return query values (
        'state', e.ev_time, 'event',
        jsonb_build_object(
            'state', v_state, 'log_name', log_name, 'ev_id', ev_id, 'newest_ev_id', v_newest, 'is_searched', e.is_searched
        )
    );
    if v_state = 'gone' and e.is_searched then
        return query values ('reason', null::timestamptz, 'event gone', '{}'::jsonb);
    elsif v_state = 'before a tick' then
        return query values ('reason', v_tick.tick_time, 'before a tick', '{}'::jsonb);
        return query select 'reason', t.* from sluice.explain_ticks(v_log.queue_name) as t where t.cause <> 'next tick';
    end if;
    if e.ev_txid is null then
        return;
    end if;
    for s in
        select c.co_name, t.*
        from pgq.standing as t
        join pgq.consumer as c on c.co_id = t.sub_consumer
        where t.sub_queue = v_log.queue_id and t.pos_last_snapshot is not null
        order by c.co_name
        limit 100
    loop
        detail := jsonb_build_object('consumer_name', s.co_name);
        select g.* into v_group from sluice.share_group as g where g.sub_key = s.sub_key;
        if found then
            v_claim := sluice._last_claim(v_group.group_id);
            if not pg_visible_in_snapshot(e.ev_txid, v_claim.upto_snapshot)
                or not pg_visible_in_snapshot(e.ev_txid, v_claim.after_snapshot) and ev_id > v_claim.upto_ev_id
            then
                return query values ('reason', v_claim.claimed_at - v_claim.clock_shift, 'not claimed', detail);
            else
                return query values ('history', null::timestamptz, 'claimed by group', detail);
            end if;
            continue;
        end if;
        select max(r.ev_retry_after) into v_retry_at from pgq.retry_entry as r where r.ev_owner = s.sub_id and r.ev_id = explain_event.ev_id;
        if v_retry_at > clock_timestamp() then
            return query values ('reason', v_retry_at, 'retry', detail);
        elsif s.pos_lost is not null then
            return query values ('reason', null::timestamptz, 'position lost', detail);
        elsif pg_visible_in_snapshot(e.ev_txid, s.pos_last_snapshot) then
            return query values ('history', null::timestamptz, 'finished', detail);
        elsif pg_visible_in_snapshot(e.ev_txid, s.pos_next_snapshot) then
            return query values ('reason', s.pos_active, 'in open batch', detail || jsonb_build_object('batch_id', s.pos_batch));
        else
            return query values ('reason', s.pos_active, 'not reached', detail);
        end if;
    end loop;
end;
$$;

comment on function sluice.explain_event(text, bigint) is
    'Explain an event of a log: whether it is there, and for each consumer and share group whether it has finished it, and if not, why; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_event(text, bigint) from public;
grant execute on function sluice.explain_event(text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
