/*
 * The two indexes that claims need: by number, the order in which events are claimed, and by transaction and number, to
 * find the few events whose numbers are not in the order of their transactions. The second replaces the one by
 * transaction alone.
 *
 * Only logs with share groups have them: one more index adds a tenth to the time of an insert. Building them blocks
 * inserts, so it does not wait long for open transactions that have inserted: all later inserts would wait too.
 */
create or replace function pgq._prepare_claims(i_queue_id integer)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_parent text := format('event_%s', i_queue_id);
    v_table name;
begin
    if to_regclass(format('pgq.%I', v_parent || '_id_idx')) is not null then
        return false;
    end if;
    -- The parent first, in the order in which readers of the log lock: otherwise they could deadlock.
    execute format('lock table pgq.%I in access exclusive mode', v_parent);
    -- The parent's index is created last: it shows that all segments have theirs.
    for v_table in
        select format('%s_%s', v_parent, s.number) from pgq._segments(i_queue_id) as s (number)
        union all
        select v_parent
    loop
        execute format('drop index pgq.%I', v_table || '_txid_idx');
        execute format('create index %I on pgq.%I (ev_txid, ev_id)', v_table || '_txid_idx', v_table);
        execute format('create index %I on pgq.%I (ev_id)', v_table || '_id_idx', v_table);
    end loop;
    return true;
exception
    when lock_not_available then
        raise exception using
            errcode = 'SG005',
            message = 'the indexes for share groups cannot be built now: a transaction that wrote to the log stays open',
            hint = 'try again when that transaction has ended';
end;
$$;

comment on function pgq._prepare_claims(integer) is
    'Create the indexes that share groups need on a log; false if they exist. The caller has locked the row of the log.';
revoke execute on function pgq._prepare_claims(integer) from public;
grant execute on function pgq._prepare_claims(integer) to pgq_admin, sluice_admin;
