create or replace function sluice._session(i_pid integer)
returns text
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (
            select format('pid %s, role %s', a.pid, a.usename)
                || case when a.application_name <> '' then format(', application %L', a.application_name) else '' end
            from pg_stat_activity as a
            where a.pid = i_pid
        ),
        format('pid %s', i_pid)
    );
$$;

comment on function sluice._session(integer) is
    'Describe a session by its pid, role and application.';
revoke execute on function sluice._session(integer) from public;
grant execute on function sluice._session(integer) to pgq_admin, sluice_admin, sluice_reader;
