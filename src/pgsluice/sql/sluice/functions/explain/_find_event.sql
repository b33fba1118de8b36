/*
 * Finds the transaction of an event, not its contents. A log with share groups has an index by number. Otherwise the ticks
 * bound the search: a transaction has its id before its event has a number, so an event with a number that tick A has not
 * counted and tick B has, was written by a transaction that was open at A or started between A and B. At most 50,000 events
 * of that range are read: is_searched is false if there are more.
 *
 * A retried event has the number of the original, which is the first one found.
 */
create or replace function sluice._find_event(i_queue_id integer, i_ev_id bigint)
returns table (ev_txid xid8, ev_time timestamptz, is_searched boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_read_max constant integer := 50000;
    v_parent constant text := format('event_%s', i_queue_id);
    v_before pgq.tick;
    v_after pgq.tick;
    v_from xid8;
    v_upto xid8;
    v_read bigint;
begin
    is_searched := true;
    if to_regclass(format('pgq.%I', v_parent || '_id_idx')) is not null then
        execute format('select e.ev_txid, e.ev_time from pgq.%I as e where e.ev_id = $1 order by e.ev_txid limit 1', v_parent)
        using i_ev_id
        into ev_txid, ev_time;
        return next;
        return;
    end if;
    select t.* into v_before
    from pgq.tick as t
    where t.tick_queue = i_queue_id and t.tick_event_seq < i_ev_id
    order by t.tick_event_seq desc, t.tick_id desc
    limit 1;
    select t.* into v_after
    from pgq.tick as t
    where t.tick_queue = i_queue_id and t.tick_event_seq >= i_ev_id
    order by t.tick_event_seq, t.tick_id
    limit 1;
    v_from := coalesce(pg_snapshot_xmax(v_before.tick_snapshot), '3'::xid8);
    v_upto := coalesce(pg_snapshot_xmax(v_after.tick_snapshot), pg_snapshot_xmax(pg_current_snapshot()));
    execute format(
        'select r.ev_txid, r.ev_time
         from (
            (
                select e.ev_txid, e.ev_id, e.ev_time
                from pgq.%1$I as e
                where e.ev_txid >= $2 and e.ev_txid < $3
                order by e.ev_txid
                limit $4
            )
            union all
            select e.ev_txid, e.ev_id, e.ev_time
            from pgq.%1$I as e
            where e.ev_txid = any ($5)
         ) as r
         where r.ev_id = $1
         limit 1',
        v_parent
    )
    using i_ev_id, v_from, v_upto, v_read_max,
        array(select x.x from pg_snapshot_xip(v_before.tick_snapshot) as x (x))
    into ev_txid, ev_time;
    if ev_txid is null then
        execute format(
            'select count(*)
             from (select from pgq.%I as e where e.ev_txid >= $1 and e.ev_txid < $2 order by e.ev_txid limit $3) as r',
            v_parent
        )
        using v_from, v_upto, v_read_max
        into v_read;
        is_searched := v_read < v_read_max;
    end if;
    return next;
end;
$$;

comment on function sluice._find_event(integer, bigint) is
    'Return the transaction and the time of an event by its number; null if it is not in the log.';
revoke execute on function sluice._find_event(integer, bigint) from public;
grant execute on function sluice._find_event(integer, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
