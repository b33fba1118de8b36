/*
 * Writers may insert into the content columns of event tables, as COPY does: not into id, transaction, time and owner,
 * which have defaults. They need the sequence for the id. Event tables also get all other grants of their template.
 *
 * Returns missing grants only: GRANT takes a lock. Compares in collation C: in Turkish, upper('insert') is not 'INSERT'.
 */
create or replace function pgq._outdated_grants(i_queue_ids integer[], out queue_id integer, out statement text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    with wanted as materialized (
        select w.kind, w.privilege, w.columns, w.is_grantable, coalesce(role.oid, 0::oid) as grantee
        from (
            select t.kind, t.role_name, p.privilege, t.columns, false
            from (values
                ('events', 'pgq_admin', 'select, insert, truncate', null::name[]),
                ('event segment', 'pgq_admin', 'select, insert, truncate', null),
                ('events', 'pgq_reader', 'select', null),
                ('event segment', 'pgq_reader', 'select', null),
                ('event segment', 'pgq_writer', 'insert', '{ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4}'),
                ('events', 'sluice_admin', 'select, insert, truncate', null),
                ('event segment', 'sluice_admin', 'select, insert, truncate', null),
                ('events', 'sluice_reader', 'select', null),
                ('event segment', 'sluice_reader', 'select', null),
                ('event segment', 'sluice_writer', 'insert', '{ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4}'),
                ('ticks', 'public', 'select', null),
                ('tick segment', 'public', 'select', null),
                ('event ids', 'pgq_admin', 'usage', null),
                ('event ids', 'pgq_writer', 'usage', null),
                ('event ids', 'sluice_admin', 'usage', null),
                ('event ids', 'sluice_writer', 'usage', null),
                ('event ids', 'public', 'select', null),
                ('tick ids', 'public', 'select', null)
            ) as t (kind, role_name, privileges, columns)
            cross join lateral unnest(string_to_array(t.privileges, ', ')) as p (privilege)
            union all
            select k.kind, pg_get_userbyid(nullif(a.grantee, 0)), lower(a.privilege_type collate "C"), null, a.is_grantable
            from pg_class as template
            cross join lateral aclexplode(template.relacl) as a
            cross join (values ('events'), ('event segment')) as k (kind)
            where template.oid = 'pgq.event_template'::regclass
              and a.grantee <> template.relowner -- the owner of the copy has its own rights
        ) as w (kind, role_name, privilege, columns, is_grantable)
        left join pg_roles as role on role.rolname = w.role_name
        where role.oid is not null or coalesce(w.role_name, 'public') = 'public'
    )
    select r.queue_id, format(
        'grant %s%s on %s %s to %s%s',
        w.privilege, ' (' || array_to_string(w.columns, ', ') || ')',
        case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass,
        case when w.grantee = 0 then 'public' else w.grantee::regrole::text end,
        case when w.is_grantable then ' with grant option' end
    )
    from pgq._log_relations(i_queue_ids) as r
    join pg_class as c on c.oid = r.relation
    join wanted as w on w.kind = r.kind
    where not exists (
            select
            from aclexplode(coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) as a
            where a.grantee = w.grantee
              and a.privilege_type = upper(w.privilege collate "C")
              and (a.is_grantable or not w.is_grantable)
        )
      and (
        w.columns is null
        or exists (
            select
            from pg_attribute as k
            where k.attrelid = c.oid
              and k.attname = any (w.columns)
              and not exists (
                select
                from aclexplode(k.attacl) as a
                where a.grantee = w.grantee and a.privilege_type = upper(w.privilege collate "C")
              )
        )
      )
    order by r.queue_id, c.relname, w.grantee;
$$;

comment on function pgq._outdated_grants(integer[]) is
    'List the rights on event logs'' tables and sequences that roles of this release lack, with the statements that grant them.';
revoke execute on function pgq._outdated_grants(integer[]) from public;
grant execute on function pgq._outdated_grants(integer[]) to pgq_admin, sluice_admin;
