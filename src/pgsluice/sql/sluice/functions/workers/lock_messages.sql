/*
 * For handlers that acknowledge in their transaction: while the row is locked, every reader skips it, also after the claim
 * has expired, so no renewal is needed; and the lock ends with the session.
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
    'Lock claimed messages until the end of the transaction, so that no other session claims them; returns for each claim, in order: done, stale (claimed again since) or gone (not in the queue).';
revoke execute on function sluice.lock_messages(text, bigint[], integer[]) from public;
grant execute on function sluice.lock_messages(text, bigint[], integer[]) to sluice_admin, sluice_reader;
