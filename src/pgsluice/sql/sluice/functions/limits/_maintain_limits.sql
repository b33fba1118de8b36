-- Removes starts that no rate limit reads any more from the ledger, oldest first. Any number of calls run concurrently: each
-- skips rows that another removes.
--
-- Writes: sluice.queue_start.
create or replace function sluice._maintain_limits(rows_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits record;
    v_rows_left integer := rows_max;
    v_removed integer;
    v_removed_in_all integer := 0;
begin
    -- Includes dropped limits: a skip scan of the index.
    for v_limits in
        with recursive ledger as (
            (select s.limits_id from sluice.queue_start as s order by s.limits_id limit 1)
            union all
            select (
                select s.limits_id from sluice.queue_start as s where s.limits_id > ledger.limits_id order by s.limits_id limit 1
            )
            from ledger
            where ledger.limits_id is not null
        )
        select ledger.limits_id, coalesce(clock_timestamp() - l.rate_interval, 'infinity') as until
        from ledger
        left join sluice.queue_settings as l on l.limits_id = ledger.limits_id
        where ledger.limits_id is not null
    loop
        with old as materialized (
            select s.started_at, s.before
            from sluice.queue_start as s
            where s.limits_id = v_limits.limits_id and s.started_at <= v_limits.until
            order by s.started_at, s.before
            limit v_rows_left
            for update skip locked
        )
        delete from sluice.queue_start as s
        using old
        where s.limits_id = v_limits.limits_id
          -- As an array, as in sluice._maintain_keys.
          and s.started_at = any (array(select old.started_at from old))
          and s.started_at = old.started_at
          and s.before = old.before;
        get diagnostics v_removed = row_count;
        v_rows_left := v_rows_left - v_removed;
        v_removed_in_all := v_removed_in_all + v_removed;
        exit when v_rows_left = 0;
    end loop;
    if v_removed_in_all > 0 then
        task := 'limits';
        done := true;
        detail := format(
            '%s starts forgotten that no rate looks at%s', v_removed_in_all, case when v_rows_left = 0 then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_limits(integer) is
    'Remove starts older than the rate interval of their queue, at most rows_max; returns one row for all queues if any were removed.';
revoke execute on function sluice._maintain_limits(integer) from public;
grant execute on function sluice._maintain_limits(integer) to sluice_admin;
