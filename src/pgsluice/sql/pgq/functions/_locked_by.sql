create or replace function pgq._locked_by(i_tables oid[])
returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select 'locked by pid ' || string_agg(distinct holding.pid::text, ', ')
    from (
        select l.pid
        from pg_locks as l
        where l.locktype = 'relation'
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and l.relation = any (i_tables)
          and l.granted
          and l.pid is distinct from pg_backend_pid()
        union all
        select unnest(pgq._dumped_by())
    ) as holding;
$$;

comment on function pgq._locked_by(oid[]) is
    'Describe the other sessions that lock any of these tables or dump the database; null if there are none.';
revoke execute on function pgq._locked_by(oid[]) from public;
grant execute on function pgq._locked_by(oid[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function pgq._locked_by(i_queue_id integer, i_number integer)
returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pgq._locked_by(array[
        to_regclass(format('pgq.event_%s', i_queue_id)),
        to_regclass(format('pgq.event_%s_%s', i_queue_id, i_number)),
        to_regclass(format('pgq.tick_%s_%s', i_queue_id, i_number))
    ]::oid[]);
$$;

comment on function pgq._locked_by(integer, integer) is
    'Describe the other sessions that lock a segment; null if there are none.';
revoke execute on function pgq._locked_by(integer, integer) from public;
grant execute on function pgq._locked_by(integer, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
