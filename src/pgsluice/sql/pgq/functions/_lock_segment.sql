-- Never waits. Who asks for a strong lock and waits for it makes all who come after it wait too.
create or replace function pgq._lock_segment(i_queue_id integer, i_number integer, i_mode text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format(
        'lock table only pgq.%I, only pgq.%I in %s mode nowait',
        format('event_%s_%s', i_queue_id, i_number), format('tick_%s_%s', i_queue_id, i_number), i_mode
    );
    return true;
exception
    when lock_not_available then
        return false;
end;
$$;

comment on function pgq._lock_segment(integer, integer, text) is
    'Lock both tables of a segment in a mode, or neither; false at once when somebody else''s lock stands against it.';
revoke execute on function pgq._lock_segment(integer, integer, text) from public;
grant execute on function pgq._lock_segment(integer, integer, text) to pgq_admin, sluice_admin;
