/*
 * The two indexes that claims need: by number, in which they take events, and by transaction and number, which finds the few events
 * whose numbers are out of the order of their transactions. The second takes the place of the one by transaction alone.
 *
 * Only the logs of share groups have them: an index more is a tenth of the time of an insert. While they are built nobody inserts, so
 * it does not wait for long for who has inserted and stays open: all who come after it would wait too.
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
    -- In the order in which whoever reads the log does, the parent first: else each would have what the other waits for.
    execute format('lock table pgq.%I in access exclusive mode', v_parent);
    -- The parent is the last: its index says that all have theirs.
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
            hint = 'try again when it has ended';
end;
$$;

comment on function pgq._prepare_claims(integer) is
    'Give a log the indexes that share groups need; false when it has them. The caller has locked the row of the log.';
revoke execute on function pgq._prepare_claims(integer) from public;
grant execute on function pgq._prepare_claims(integer) to pgq_admin, sluice_admin;
