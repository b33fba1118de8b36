create or replace function pgmq._visible_from(delay integer)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A delay counts from the call: from now(), the start of the transaction, it would already be partly spent. Without
    -- one the message is visible from now(), when it was enqueued, which makes it ready and not deferred (README.md).
    return case when delay <= 0 then now() else clock_timestamp() end + make_interval(secs => delay);
end;
$$;

comment on function pgmq._visible_from(integer) is
    'When a message sent now with this delay in seconds becomes visible; null for null.';
revoke execute on function pgmq._visible_from(integer) from public;
grant execute on function pgmq._visible_from(integer) to sluice_admin, sluice_writer;
