/*
 * The core of the batch forms of delete, archive, extend and release: an effect on the messages whose claim is still
 * current, and an outcome per claim.
 *
 * read_ct is the fencing token: a later claim of the message has a higher one, and keeps the message. A message with another
 * enqueued_at than the given one is another message, of a queue that was dropped and created again. The rows are locked
 * in the order of msg_id before anything is decided, so that batches in opposite orders wait for each other and do not
 * deadlock; a row that was changed meanwhile is seen as it is after the wait.
 *
 * The effect is a list of common table expressions, the last one named settled and returning msg_id; it changes the
 * messages whose msg_id is in current. %1$I in it is the queue's table and %2$I its archive; $1 to $3 are the claims.
 *
 * Calls: pgmq.format_table_name, sluice._require_claims.
 */
create or replace function sluice._settle_sql(
    queue_name text, msg_ids bigint[], read_cts integer[], enqueued_ats timestamptz[], effect text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_claims(msg_ids, read_cts, enqueued_ats);
    return format(
        'with claim as materialized (
            select * from unnest($1, $2, $3) with ordinality as c (msg_id, read_ct, enqueued_at, position)
        ),
        held as materialized (
            select queued.msg_id, queued.read_ct, queued.enqueued_at
            from pgmq.%1$I as queued
            where queued.msg_id = any ($1)
            order by queued.msg_id
            for update
        ),
        current as materialized (
            select held.msg_id
            from held
            join claim using (msg_id, read_ct)
            where claim.enqueued_at is null
               or claim.enqueued_at = held.enqueued_at
        ),
        ' || effect || '
        select claim.msg_id,
            case
                when held.msg_id is null or claim.enqueued_at <> held.enqueued_at then ''gone''
                when settled.msg_id is null or claim.read_ct is distinct from held.read_ct then ''stale''
                else ''done''
            end
        from claim
        left join held on held.msg_id = claim.msg_id
        left join settled on settled.msg_id = claim.msg_id
        order by claim.position',
        pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a')
    );
end;
$$;

comment on function sluice._settle_sql(text, bigint[], integer[], timestamptz[], text) is
    'Return the query that applies an effect to the messages of current claims, and returns for each claim: done, stale or gone.';
revoke execute on function sluice._settle_sql(text, bigint[], integer[], timestamptz[], text) from public;
grant execute on function sluice._settle_sql(text, bigint[], integer[], timestamptz[], text) to sluice_admin, sluice_reader;
