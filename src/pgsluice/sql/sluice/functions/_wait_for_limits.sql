create or replace function sluice._wait_for_limits(limits_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_lock_class constant integer := 1936484717;
begin
    perform pg_advisory_xact_lock(v_lock_class, limits_id);
exception
    when lock_not_available then
        raise exception using
            errcode = 'lock_not_available',
            message = format(
                'queue %L is being claimed from in a transaction that stays open', (
                    select l.queue_name from sluice.queue_limits as l where l.limits_id = _wait_for_limits.limits_id
                )
            ),
            detail = (
                select format('Its session has pid %s.', string_agg(l.pid::text, ', '))
                from pg_locks as l
                where l.locktype = 'advisory'
                  and l.classid = v_lock_class
                  and l.objid = _wait_for_limits.limits_id
                  and l.database = (select d.oid from pg_database as d where d.datname = current_database())
                  and l.granted
            ),
            hint = 'commit right after each claim from a queue with limits';
end;
$$;

comment on function sluice._wait_for_limits(integer) is
    'Wait for the lock on the limits of a queue, two seconds at the most; the error names who has it.';
revoke execute on function sluice._wait_for_limits(integer) from public;
grant execute on function sluice._wait_for_limits(integer) to sluice_admin, sluice_reader;
