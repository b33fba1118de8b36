create or replace function pgmq._visible_from(delay integer)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A delay counts from the call: from now(), the start of the transaction, part of it would have passed. Without a
    -- delay the message is visible from now(), its enqueued_at, which makes it ready instead of deferred (README.md).
    return case when delay <= 0 then now() else clock_timestamp() end + make_interval(secs => delay);
end;
$$;

comment on function pgmq._visible_from(integer) is
    'Return when a message sent now with this delay in seconds becomes visible; null for null.';
revoke execute on function pgmq._visible_from(integer) from public;
grant execute on function pgmq._visible_from(integer) to sluice_admin, sluice_writer;
