create or replace function sluice._require_capturable(source_table regclass)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_relation record;
    v_reason text;
begin
    select c.relkind, c.relispartition, c.relnamespace, c.relpersistence
    into v_relation
    from pg_class as c
    where c.oid = source_table;
    v_reason := case
        when not found then 'It does not exist.'
        when v_relation.relkind not in ('r', 'p') then 'It is no table.'
        when v_relation.relnamespace = 'pgq'::regnamespace then 'It is part of the event log itself.'
        when v_relation.relispartition then 'It is a partition, and most of its changes are made through its root.'
        when v_relation.relpersistence = 't' then 'It is temporary: it is dropped without an event.'
        when exists (
            select
            from pg_class as c
            where c.relpersistence = 'u'
              and (c.oid = source_table or c.oid in (select p.relid from pg_partition_tree(source_table) as p))
        )
            then 'It or one of its partitions is unlogged: a crash of the server empties it without an event.'
        -- A statement on a parent also changes rows of its children, and fires only the parent's triggers.
        when v_relation.relkind = 'r'
            and exists (select from pg_inherits as i where source_table in (i.inhparent, i.inhrelid))
            then 'It inherits or is inherited from: changes made through the one are not seen by triggers of the other.'
        when exists (
            select
            from pg_partition_tree(source_table) as p
            join pg_class as c on c.oid = p.relid
            where c.relkind = 'f'
        )
            then 'One of its partitions is a foreign table, whose changes no trigger can collect.'
    end;
    if v_reason is not null then
        raise exception using
            errcode = 'PQ007',
            message = format('%s cannot be captured', source_table),
            detail = v_reason,
            hint = 'capture a logged table of its own, or the root of its partitions';
    end if;
end;
$$;

comment on function sluice._require_capturable(regclass) is
    'Raise an error if statement triggers cannot see all changes of a relation.';
revoke execute on function sluice._require_capturable(regclass) from public;
grant execute on function sluice._require_capturable(regclass) to pgq_admin, sluice_admin;
