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
            ('event', 'sluice_reader', 'select'),
            ('event', 'pgq_reader', 'select'),
            ('event', 'sluice_admin', 'select, insert, truncate'),
            ('event', 'pgq_admin', 'select, insert, truncate'),
            ('tick', 'public', 'select')
        ) as wanted (kind, role_name, privileges)
        join pg_class as event_table
            on event_table.relname ~ format('^%s_%s(_[0-9]+)?$', wanted.kind, i_queue_id)
        where event_table.relnamespace = 'pgq'::regnamespace
          and event_table.relkind = 'r'
          and (wanted.role_name = 'public' or to_regrole(wanted.role_name) is not null)
    loop
        execute format(
            'grant %s on pgq.%I to %s', v_grant.privileges, v_grant.relname,
            case when v_grant.role_name = 'public' then 'public' else quote_ident(v_grant.role_name) end
        );
    end loop;
end;
$$;

comment on function pgq._grant_queue(integer) is
    'Give the roles that exist their rights on a log''s event and tick tables.';
revoke execute on function pgq._grant_queue(integer) from public;
grant execute on function pgq._grant_queue(integer) to pgq_admin, sluice_admin;
