-- The ticks first: readers lock ticks before events, so a wait in the same order cannot end in a deadlock. PostgreSQL
-- measures lock_timeout and deadlock_timeout by the wall clock; one set back by an hour delays both by as much.
create or replace function pgq._lock_segment(i_queue_id integer, i_number integer, i_mode text, i_wait_ms integer)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgq._lock_tables(
        array[
            format('pgq.%I', format('tick_%s_%s', i_queue_id, i_number)),
            format('pgq.%I', format('event_%s_%s', i_queue_id, i_number))
        ]::regclass[],
        i_mode, i_wait_ms
    );
$$;

comment on function pgq._lock_segment(integer, integer, text, integer) is
    'Lock both tables of a segment in a mode, or neither; false if another lock conflicts, immediately or after i_wait_ms.';
revoke execute on function pgq._lock_segment(integer, integer, text, integer) from public;
grant execute on function pgq._lock_segment(integer, integer, text, integer) to pgq_admin, sluice_admin;
