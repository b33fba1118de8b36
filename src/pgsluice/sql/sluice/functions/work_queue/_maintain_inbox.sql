-- Locked rows are skipped: they are being removed, or done anew, by somebody else. So any number may run at once.
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
    -- By an array of places, which are locked and so stay: joined, their number unknown to the planner, it would read the table.
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
    'Remove keys of handlers whose time is over, oldest first, at most keys_max; one row for all handlers when there were some.';
revoke execute on function sluice._maintain_inbox(integer) from public;
grant execute on function sluice._maintain_inbox(integer) to sluice_admin;
