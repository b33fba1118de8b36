-- A claim reads the row of its group anyway.
create or replace function sluice._store_types(i_group_id integer)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    update sluice.share_group as g
    set types = d.types, has_others = d.has_others
    from (
        select coalesce(array_agg(distinct t.ev_type) filter (where t.ev_type <> ''), '{}') as types,
            coalesce(bool_or(t.ev_type = ''), false) as has_others
        from sluice.group_type as t
        where t.group_id = i_group_id and t.is_handled
    ) as d
    where g.group_id = i_group_id and (g.types, g.has_others) is distinct from (d.types, d.has_others);
$$;

comment on function sluice._store_types(integer) is
    'Store the declared types of a share group in its row. The caller has locked that row.';
revoke execute on function sluice._store_types(integer) from public;
grant execute on function sluice._store_types(integer) to pgq_admin, sluice_admin;
