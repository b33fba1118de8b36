/*
 * For handlers that acknowledge in their transaction: while the row is locked, every reader skips it, also after the claim
 * has expired, so no renewal is needed; and the lock ends with the session.
 *
 * Calls: sluice._settle_sql.
 */
create or replace function sluice.lock_messages(
    queue_name text, msg_ids bigint[], read_cts integer[], enqueued_ats timestamptz[] default null
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute sluice._settle_sql(
        queue_name, msg_ids, read_cts, enqueued_ats, 'settled as (select distinct current.msg_id from current)'
    )
    using msg_ids, read_cts, enqueued_ats;
end;
$$;

comment on function sluice.lock_messages(text, bigint[], integer[], timestamptz[]) is
    'Lock claimed messages until the end of the transaction, so that no other session claims them; returns for each claim, in order: done, stale (claimed again since) or gone (not in the queue, or its message has another enqueued_at than the given one).';
revoke execute on function sluice.lock_messages(text, bigint[], integer[], timestamptz[]) from public;
grant execute on function sluice.lock_messages(text, bigint[], integer[], timestamptz[]) to sluice_admin, sluice_reader;
