-- Who asks for a strong lock and waits for it makes all who come after it wait too. So nobody waits, with one exception that says
-- how long: see pgq._reclaim.
create or replace function pgq._lock_segment(i_queue_id integer, i_number integer, i_mode text, i_wait_ms integer)
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
        'lock table only pgq.%I, only pgq.%I in %s mode %s',
        format('event_%s_%s', i_queue_id, i_number), format('tick_%s_%s', i_queue_id, i_number), i_mode,
        case when i_wait_ms > 0 then '' else 'nowait' end
    );
    perform set_config('lock_timeout', v_lock_timeout_before, true);
    return true;
exception
    when lock_not_available then
        return false; -- with the setting as it was before the block
end;
$$;

comment on function pgq._lock_segment(integer, integer, text, integer) is
    'Lock both tables of a segment in a mode, or neither; false when somebody else''s lock stands against it, at once or after a wait.';
revoke execute on function pgq._lock_segment(integer, integer, text, integer) from public;
grant execute on function pgq._lock_segment(integer, integer, text, integer) to pgq_admin, sluice_admin;
