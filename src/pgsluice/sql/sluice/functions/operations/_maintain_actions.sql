-- In the order of the primary key, which is that of the times but for concurrent transactions.
create or replace function sluice._maintain_actions(rows_max integer default 1000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept constant interval := '90 days';
    v_removed bigint;
begin
    delete from sluice.action as a
    where a.action_id = any (array(
        select o.action_id
        from (select f.action_id, f.acted_at from sluice.action as f order by f.action_id limit rows_max) as o
        where o.acted_at < clock_timestamp() - v_kept
    ));
    get diagnostics v_removed = row_count;
    if v_removed > 0 then
        task := 'actions';
        done := true;
        detail := format('%s records of actions older than 90 days removed', v_removed);
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_actions(integer) is
    'Remove records of actions older than 90 days, at most rows_max; returns a row if it removed any.';
revoke execute on function sluice._maintain_actions(integer) from public;
grant execute on function sluice._maintain_actions(integer) to sluice_admin;
