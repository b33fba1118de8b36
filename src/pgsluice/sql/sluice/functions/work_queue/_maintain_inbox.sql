-- Locked rows are skipped, because another session removes or updates them. So any number of calls run concurrently.
--
-- Writes: sluice.inbox.
create or replace function sluice._maintain_inbox(keys_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_removed integer;
begin
    with expired as materialized (
        select i.ctid as place
        from sluice.inbox as i
        where i.expires_at <= v_now
        order by i.expires_at
        limit keys_max
        for update skip locked
    )
    -- By an array of ctids, which are locked and so stay valid: a join with an unknown number would scan the table.
    delete from sluice.inbox as i
    where i.ctid = any (array(select expired.place from expired));
    get diagnostics v_removed = row_count;
    if v_removed > 0 then
        task := 'inbox';
        done := true;
        detail := format(
            '%s expired keys removed%s', v_removed, case when v_removed >= keys_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_inbox(integer) is
    'Remove expired idempotency keys of handlers, oldest first, at most keys_max; returns one row for all handlers if any were removed.';
revoke execute on function sluice._maintain_inbox(integer) from public;
grant execute on function sluice._maintain_inbox(integer) to sluice_admin;
