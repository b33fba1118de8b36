create or replace function sluice.drop_retry_policy(queue_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered text := sluice._registered_name(queue_name);
    v_dropped integer;
begin
    delete from sluice.retry_policy as p where p.queue_name = v_registered;
    get diagnostics v_dropped = row_count;
    return v_dropped = 1;
end;
$$;

comment on function sluice.drop_retry_policy(text) is
    'Reset a queue to the default retry policy; false if it has no policy of its own.';
revoke execute on function sluice.drop_retry_policy(text) from public;
grant execute on function sluice.drop_retry_policy(text) to sluice_admin;
