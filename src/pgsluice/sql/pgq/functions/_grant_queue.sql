create or replace function pgq._grant_queue(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_grant record;
begin
    for v_grant in
        select event_table.relname, wanted.role_name, wanted.privileges
        from (values
            ('sluice_reader', 'select'),
            ('sluice_admin', 'select, insert, truncate')
        ) as wanted (role_name, privileges)
        cross join (
            select c.relname
            from pg_class as c
            where c.relnamespace = 'pgq'::regnamespace
              and c.relkind = 'r'
              and c.relname ~ format('^event_%s(_[0-9]+)?$', i_queue_id)
        ) as event_table
        where to_regrole(wanted.role_name) is not null
    loop
        execute format('grant %s on pgq.%I to %I', v_grant.privileges, v_grant.relname, v_grant.role_name);
    end loop;
end;
$$;

comment on function pgq._grant_queue(integer) is
    'Give the roles that exist their rights on a log''s event tables.';
revoke execute on function pgq._grant_queue(integer) from public;
grant execute on function pgq._grant_queue(integer) to sluice_admin;
