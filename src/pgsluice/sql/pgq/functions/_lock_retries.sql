-- As pgq._lock_segment: who waits for a strong lock makes all who come after it wait too, so it is for a moment at the most.
create or replace function pgq._lock_retries(i_tables text, i_wait_ms integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_timeout_before text := current_setting('lock_timeout');
begin
    if i_wait_ms > 0 then
        perform set_config('lock_timeout', i_wait_ms::text, true);
    end if;
    execute format(
        'lock table %s in access exclusive mode %s', i_tables, case when i_wait_ms > 0 then '' else 'nowait' end
    );
    perform set_config('lock_timeout', v_lock_timeout_before, true);
    return true;
exception
    when lock_not_available then
        return false; -- with the setting as it was before the block
end;
$$;

comment on function pgq._lock_retries(text, integer) is
    'Lock tables of retry entries for oneself; false when somebody else''s lock stands against it, at once or after a wait.';
revoke execute on function pgq._lock_retries(text, integer) from public;
grant execute on function pgq._lock_retries(text, integer) to pgq_admin, sluice_admin;
