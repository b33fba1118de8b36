-- Maintenance would delete them later. It has to where the caller has rights on PGMQ's own objects only, as roles from
-- before an adoption may.
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
    'Delete the counted attempts of a queue whose messages are all gone.';
revoke execute on function pgmq._forget_attempts(text) from public;
grant execute on function pgmq._forget_attempts(text) to sluice_admin;
