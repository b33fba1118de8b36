-- One statement for one event or for thousands: the batch is read once.
--
-- The batch is locked, so no other session retries its events concurrently, and earlier retries are visible. A
-- transaction with an older snapshot may not see them: the key on owner, event and batch turns that into a
-- serialization failure.
--
-- Statistics of tables that fill and empty within minutes are useless. So `offset 0` and the settings make the planner
-- look up each event by the index, instead of a join with all entries.
create or replace function pgq._queue_retry(
    i_batch_id bigint, i_ev_ids bigint[], i_retry_after timestamptz, out queued integer, out missing bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    v_batch record;
    v_pass pgq.retry_pass;
begin
    if i_retry_after is null then
        raise exception using
            errcode = '22004',
            message = 'retry time is null',
            hint = 'pass the time or the delay after which the event is delivered again';
    end if;
    v_batch := pgq._hold_batch(i_batch_id);
    if (v_batch.standing).pos_batch is null then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', i_batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    v_pass := pgq._last_retry_pass();

    -- A batch has an event twice if its consumer was moved back before the retry: the later one counts.
    execute format(
        'with wanted as materialized (
            select distinct on (event.ev_id) event.*
            from (%s) as event
            where (event.ev_owner is null or event.ev_owner = $1)
              and ($2 is null or event.ev_id = any ($2))
            order by event.ev_id, event.ev_retry desc nulls last
        ),
        queued as (
            insert into pgq.%I (
                entry_batch, ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry,
                ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
            )
            select $3, $4, $5, w.ev_id, w.ev_time, $1, coalesce(w.ev_retry, 0) + 1,
                w.ev_type, w.ev_data, w.ev_extra1, w.ev_extra2, w.ev_extra3, w.ev_extra4
            from wanted as w
            where not exists (
                select
                from pgq.retry_entry as e
                where e.ev_owner = $1
                  and e.ev_id = w.ev_id
                  and (e.entry_batch = $3 or e.ev_retry_after > $6 or not pg_visible_in_snapshot(e.entry_txid, $7))
                offset 0
            )
            on conflict do nothing
            returning 1
        )
        select (select count(*) from queued), array(select unnest($2) except select w.ev_id from wanted as w order by 1)',
        pgq._events_between_sql(
            (v_batch.subscriber).sub_queue, (v_batch.standing).pos_last_snapshot, (v_batch.standing).pos_next_snapshot, 1, 1
        ),
        format('retry_entry_%s', v_pass.pass_table)
    )
    using (v_batch.subscriber).sub_id, i_ev_ids, i_batch_id, i_retry_after, (v_batch.subscriber).sub_queue,
        v_pass.pass_time, v_pass.pass_snapshot
    into queued, missing;
end;
$$;

comment on function pgq._queue_retry(bigint, bigint[], timestamptz) is
    'Retry events of an open batch, null for all; returns how many were not queued before, and the ids that it does not have.';
revoke execute on function pgq._queue_retry(bigint, bigint[], timestamptz) from public;
grant execute on function pgq._queue_retry(bigint, bigint[], timestamptz) to pgq_admin, sluice_admin;
