-- Maintenance would find them too, later. It does so where the caller's rights end at PGMQ's own objects, as those of roles may
-- that were there before.
create or replace function pgmq._forget_attempts(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_schema_privilege('sluice', 'usage') then
        if has_table_privilege('sluice.attempt', 'delete') then
            delete from sluice.attempt as noted where noted.queue_name = lower(_forget_attempts.queue_name);
        end if;
    end if;
end;
$$;

comment on function pgmq._forget_attempts(text) is
    'Forget how often messages of a queue were tried, all of which are gone.';
revoke execute on function pgmq._forget_attempts(text) from public;
grant execute on function pgmq._forget_attempts(text) to sluice_admin;
