-- Skip locked rows: another session is removing or reusing them. Concurrent calls are safe.
--
-- Writes: sluice.deduplication_key.
create or replace function sluice._maintain_deduplication(keys_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_removed integer;
begin
    with expired as materialized (
        select k.is_unlogged, k.incarnation, k.key
        from sluice.deduplication_key as k
        where k.expires_at <= v_now
        order by k.expires_at
        limit keys_max
        for update skip locked
    )
    delete from sluice.deduplication_key as k
    using expired
    -- An array in addition to the join: without an estimate of the rows, the planner would scan the whole table.
    where k.key = any (array(select expired.key from expired))
      and k.is_unlogged = expired.is_unlogged
      and k.incarnation = expired.incarnation
      and k.key = expired.key;
    get diagnostics v_removed = row_count;
    if v_removed > 0 then
        task := 'deduplication';
        done := true;
        detail := format(
            '%s expired keys removed%s', v_removed, case when v_removed >= keys_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_deduplication(integer) is
    'Remove expired deduplication keys, oldest first, at most keys_max; returns one row for all queues if it removed any.';
revoke execute on function sluice._maintain_deduplication(integer) from public;
grant execute on function sluice._maintain_deduplication(integer) to sluice_admin;
