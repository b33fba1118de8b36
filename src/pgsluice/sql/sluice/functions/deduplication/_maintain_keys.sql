-- Skip locked rows: another session is removing or reusing them. Concurrent calls are safe.
--
-- Writes: sluice.idempotency_key.
create or replace function sluice._maintain_keys(keys_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_removed integer;
begin
    with expired as materialized (
        select k.tableoid, k.ctid as place
        from sluice.idempotency_key as k
        where k.expires_at <= clock_timestamp()
        order by k.expires_at
        limit keys_max
        for update skip locked
    )
    delete from sluice.idempotency_key as k
    using expired
    -- By an array of ctids, which are locked and so stay valid: a join alone, with an unknown number of rows, would scan the tables.
    where k.ctid = any (array(select expired.place from expired))
      and k.tableoid = expired.tableoid
      and k.ctid = expired.place;
    get diagnostics v_removed = row_count;
    if v_removed > 0 then
        task := 'keys';
        done := true;
        detail := format(
            '%s expired keys removed%s', v_removed, case when v_removed >= keys_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_keys(integer) is
    'Remove expired keys of messages, handlers and sinks, oldest first, at most keys_max; returns one row if it removed any.';
revoke execute on function sluice._maintain_keys(integer) from public;
grant execute on function sluice._maintain_keys(integer) to sluice_admin;
