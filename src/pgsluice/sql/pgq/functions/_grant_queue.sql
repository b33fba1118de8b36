-- Writers may insert into event tables what an event says, as COPY does: not its id, transaction, time or owner, which have
-- defaults. They need the sequence for the id.
--
-- A rotation changes the same rows of pg_class by TRUNCATE, and the later of the two would fail, "tuple concurrently updated". So
-- the log's row is locked: a rotation that has it is waited for, and the next one skips the log.
create or replace function pgq._grant_queue(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fields constant text := 'insert (ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)';
    v_grant record;
begin
    perform from pgq.queue as q where q.queue_id = i_queue_id for no key update;
    for v_grant in
        select wanted.privileges, wanted.kind, granted.relname,
            case when wanted.role_name = 'public' then 'public' else quote_ident(wanted.role_name) end as role_name
        from (values
            ('table', 'event_%s(_[0-9]+)?', 'pgq_admin', 'select, insert, truncate'),
            ('table', 'event_%s(_[0-9]+)?', 'pgq_reader', 'select'),
            ('table', 'event_%s_[0-9]+', 'pgq_writer', v_fields),
            ('table', 'event_%s(_[0-9]+)?', 'sluice_admin', 'select, insert, truncate'),
            ('table', 'event_%s(_[0-9]+)?', 'sluice_reader', 'select'),
            ('table', 'event_%s_[0-9]+', 'sluice_writer', v_fields),
            ('table', 'tick_%s(_[0-9]+)?', 'public', 'select'),
            ('sequence', 'event_%s_id_seq', 'pgq_admin', 'usage'),
            ('sequence', 'event_%s_id_seq', 'pgq_writer', 'usage'),
            ('sequence', 'event_%s_id_seq', 'sluice_admin', 'usage'),
            ('sequence', 'event_%s_id_seq', 'sluice_writer', 'usage'),
            ('sequence', 'event_%s_(id|tick)_seq', 'public', 'select')
        ) as wanted (kind, pattern, role_name, privileges)
        join pg_class as granted
            on granted.relname ~ format('^' || wanted.pattern || '$', i_queue_id)
            and granted.relkind = case wanted.kind when 'table' then 'r' else 'S' end::"char"
        where granted.relnamespace = 'pgq'::regnamespace
          and (wanted.role_name = 'public' or to_regrole(wanted.role_name) is not null)
        order by granted.relname, role_name
    loop
        execute format(
            'grant %s on %s pgq.%I to %s', v_grant.privileges, v_grant.kind, v_grant.relname, v_grant.role_name
        );
    end loop;

    -- And whatever else was granted on the template.
    perform pgq._grant_perms_from('pgq'::text, 'event_template'::text, 'pgq'::text, c.relname::text)
    from pg_class as c
    where c.relnamespace = 'pgq'::regnamespace
      and c.relkind = 'r'
      and c.relname ~ format('^event_%s(_[0-9]+)?$', i_queue_id);
end;
$$;

comment on function pgq._grant_queue(integer) is
    'Give the roles that exist their rights on a log''s tables and sequences.';
revoke execute on function pgq._grant_queue(integer) from public;
grant execute on function pgq._grant_queue(integer) to pgq_admin, sluice_admin;
