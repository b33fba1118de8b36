-- A claim takes well under a millisecond, and its commit some more. Whoever keeps the lock for seconds has claimed in a transaction that it
-- leaves open: then an error with its name is of more use than a wait.
create or replace function sluice._wait_for_group(i_group sluice.share_group)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_lock_class constant integer := 1936221042;
begin
    perform pg_advisory_xact_lock(v_lock_class, i_group.group_id);
exception
    when lock_not_available then
        raise exception using
            errcode = 'SG005',
            message = format('share group %L is being claimed from in a transaction that stays open', i_group.group_name),
            detail = (
                select format('Its session has pid %s.', string_agg(l.pid::text, ', '))
                from pg_locks as l
                where l.locktype = 'advisory'
                  and l.classid = v_lock_class
                  and l.objid = i_group.group_id
                  and l.database = (select d.oid from pg_database as d where d.datname = current_database())
                  and l.granted
            ),
            hint = 'commit right after each claim; acknowledgements may take part in any transaction';
end;
$$;

comment on function sluice._wait_for_group(sluice.share_group) is
    'Wait for the lock of a share group, two seconds at the most; the error names who has it.';
revoke execute on function sluice._wait_for_group(sluice.share_group) from public;
grant execute on function sluice._wait_for_group(sluice.share_group) to pgq_admin, sluice_admin;
