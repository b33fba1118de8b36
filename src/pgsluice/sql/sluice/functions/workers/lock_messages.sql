/*
 * For who handles a message in the transaction that acknowledges it: while the row is locked every reader passes it by, also
 * when the time of the claim is over, so nothing has to be extended; and when the session dies the lock is gone with it.
 *
 * Calls: sluice._settle_sql.
 */
create or replace function sluice.lock_messages(queue_name text, msg_ids bigint[], read_cts integer[])
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute sluice._settle_sql(
        queue_name, msg_ids, read_cts, 'settled as (select distinct current.msg_id from current)'
    )
    using msg_ids, read_cts;
end;
$$;

comment on function sluice.lock_messages(text, bigint[], integer[]) is
    'Lock claimed messages to the end of the transaction, so that nobody else claims them; says of each claim, in their order: done, stale (claimed again since) or gone (not in the queue).';
revoke execute on function sluice.lock_messages(text, bigint[], integer[]) from public;
grant execute on function sluice.lock_messages(text, bigint[], integer[]) to sluice_admin, sluice_reader;
