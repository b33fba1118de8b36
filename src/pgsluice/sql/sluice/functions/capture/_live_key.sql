-- An index never gets other columns: so an index that is a primary key in the snapshot, and still exists, is one. Another is
-- found as replica identity, which it is unless the table has been given another.
create or replace function sluice._live_key(relation oid)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_index oid;
begin
    select i.indexrelid
    into v_index
    from pg_index as i
    where i.indrelid = relation
      and i.indisprimary
      and i.indimmediate;
    if (v_index is null or pg_get_indexdef(v_index) is null)
        and exists (select from pg_identify_object('pg_class'::regclass, relation, 0) as o where o.identity is not null)
    then
        v_index := pg_get_replica_identity_index(relation);
    end if;
    return (
        select array_agg(k.name order by k.number)
        from (
            select n.number, (parse_ident(pg_get_indexdef(v_index, n.number, false)))[1] as name
            from generate_series(1, 32) as n (number)
            where pg_index_column_has_property(v_index, n.number, 'orderable')
        ) as k
    );
end;
$$;

comment on function sluice._live_key(oid) is
    'Return the columns of a table''s primary key that is not deferrable, whatever the snapshot of the transaction.';
revoke execute on function sluice._live_key(oid) from public;
grant execute on function sluice._live_key(oid) to pgq_admin, sluice_admin;
