/*
 * The first by transaction id of those that began after the snapshot, which took its id first, and those that were in progress at
 * the snapshot. So retried events, which keep their numbers, are found too. Dynamic SQL, planned once for all consumers of a log.
 *
 * Security definer: a monitor may not read events.
 */
create or replace function pgq._oldest_events(i_queue_id integer, i_after pg_snapshot[], i_owners integer[])
returns timestamptz[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_oldest timestamptz[];
begin
    execute format(
        'select array_agg(least(next.ev_time, late.ev_time) order by reader.number)
        from unnest($1, $3) with ordinality as reader (after, owner, number)
        left join lateral (
            select e.ev_time
            from pgq.%1$I as e
            where e.ev_txid >= pg_snapshot_xmax(reader.after)
              and e.ev_txid < pg_snapshot_xmax($2)
              and pg_visible_in_snapshot(e.ev_txid, $2)
              and (e.ev_owner is null or e.ev_owner = coalesce(reader.owner, e.ev_owner))
            order by e.ev_txid
            limit 1
        ) as next on true
        left join lateral (
            select min(e.ev_time) as ev_time
            from pg_snapshot_xip(reader.after) as x (txid)
            cross join lateral (
                select e.ev_time
                from pgq.%1$I as e
                where e.ev_txid = x.txid and (e.ev_owner is null or e.ev_owner = coalesce(reader.owner, e.ev_owner))
                limit 1
            ) as e
            where pg_visible_in_snapshot(x.txid, $2)
        ) as late on true',
        format('event_%s', i_queue_id)
    )
    using i_after, pg_current_snapshot(), i_owners
    into v_oldest;
    return v_oldest;
end;
$$;

comment on function pgq._oldest_events(integer, pg_snapshot[], integer[]) is
    'Return for each snapshot of a log the time of the first event after it, of those for all consumers and for an owner, or for any if that is null; null if there is none.';
revoke execute on function pgq._oldest_events(integer, pg_snapshot[], integer[]) from public;
grant execute on function pgq._oldest_events(integer, pg_snapshot[], integer[]) to pgq_admin, sluice_admin;
