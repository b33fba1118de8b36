/*
 * For handlers whose own transaction acknowledges the message. The fence is the acknowledgement: a transaction whose claim is
 * stale rolls back, and its result with it.
 *
 * A row that exists is that of a message of the same id: an unlogged queue that a crash emptied restarts its ids.
 *
 * Calls: sluice.queue_identity, sluice.notify_results. Writes: sluice.result.
 */
create or replace function sluice.store_results(queue_name text, msg_ids bigint[], results jsonb, keep interval)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if keep is null or keep <= interval '0' then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('keep is not positive: %s', coalesce(keep::text, 'NULL')),
            hint = 'pass an interval such as 1 hour';
    end if;
    if cardinality(msg_ids) <> jsonb_array_length(results) then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('got %s results for %s messages', jsonb_array_length(results), cardinality(msg_ids)),
            hint = 'pass a JSON array with one result for each message';
    end if;
    insert into sluice.result as r (kind, key, incarnation, msg_id, detail, expires_at)
    select 'result', settled.msg_id::text, i.identity::bigint, settled.msg_id, settled.result, clock_timestamp() + keep
    from rows from (unnest(msg_ids), jsonb_array_elements(results)) as settled (msg_id, result)
    cross join sluice.queue_identity(queue_name, null::oid) as i (identity)
    order by settled.msg_id
    on conflict on constraint result_pkey do update
    set detail = excluded.detail, expires_at = excluded.expires_at;
    perform sluice.notify_results(queue_name, msg_ids);
end;
$$;

comment on function sluice.store_results(text, bigint[], jsonb, interval) is
    'Keep the results of messages, one element of a JSON array each, for the time keep; call it in the transaction that acknowledges them.';
revoke execute on function sluice.store_results(text, bigint[], jsonb, interval) from public;
grant execute on function sluice.store_results(text, bigint[], jsonb, interval) to sluice_admin, sluice_reader;
