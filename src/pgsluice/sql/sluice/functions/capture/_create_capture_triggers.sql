-- Statement triggers, not row triggers. A trigger with transition tables handles one operation. The triggers of a partition
-- fire for statements that name the partition, and those of its root for the others: each change is captured once.
--
-- TRUNCATE fires the triggers of every table that it empties, first those before it, in the order root, partitions. The
-- trigger before the TRUNCATE of a partition appends a delete for each of its rows, as the rows of other partitions stay. If
-- its root is truncated, the root's trigger before it tells those of the partitions, and the one after it appends one event.
--
-- The trigger before other statements is for tables that are changed by triggers, see sluice._begin_capture. Its name begins
-- with a tilde, so it runs last.
create or replace function sluice._create_capture_triggers(relation regclass, log_name text, options jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id constant integer := (pgq._require_log(log_name)).queue_id;
    v_root constant regclass := pg_partition_root(relation);
    v_arguments text := format('%L, %L', log_name, options);
    v_relation record;
    v_trigger record;
begin
    select c.relkind = 'r' as is_leaf, c.relispartition
    into strict v_relation
    from pg_class as c
    where c.oid = relation;
    if v_relation.relispartition then
        v_arguments := v_arguments || format(
            ', %L', (select format('%I.%I', n.nspname, c.relname)
                     from pg_class as c
                     join pg_namespace as n on n.oid = c.relnamespace
                     where c.oid = v_root)
        );
    end if;
    for v_trigger in
        select wanted.name, wanted.event, wanted.transition_tables, wanted.operation = 'begin' as is_begin
        from (values
            (0, 'begin', 'begin', 'before insert or update or delete', '', true),
            (1, 'insert', 'insert', 'after insert', 'referencing new table as new_rows', true),
            (2, 'update', 'update', 'after update', 'referencing old table as old_rows new table as new_rows', true),
            (3, 'delete', 'delete', 'after delete', 'referencing old table as old_rows', true),
            (4, 'truncate', 'truncating', 'before truncate', '', not v_relation.is_leaf and not v_relation.relispartition),
            (5, 'truncate', 'truncate', 'after truncate', '', not v_relation.relispartition),
            (6, 'truncate', 'truncate', 'before truncate', '', v_relation.is_leaf and v_relation.relispartition)
        ) as wanted (position, operation, name, event, transition_tables, applies)
        where wanted.applies
          and coalesce(options -> 'operations' ?| case wanted.operation when 'begin' then '{insert,update,delete}' else array[wanted.operation] end, true)
        order by wanted.position
    loop
        if v_trigger.name = 'truncate' and v_relation.relispartition then
            perform sluice._let_capture_read(relation);
        end if;
        execute format(
            'create or replace trigger %I %s on %s %s
             for each statement execute function sluice.%I(%s)',
            format('%ssluice_capture_%s_%s', case when v_trigger.is_begin then '~' end, v_trigger.name, v_queue_id),
            v_trigger.event, relation, v_trigger.transition_tables,
            case when v_trigger.is_begin then '_begin_capture' else 'capture_changes' end,
            v_arguments
        );
        if options -> 'replicated' = 'true' then
            execute format(
                'alter table %s enable always trigger %I', relation,
                format('%ssluice_capture_%s_%s', case when v_trigger.is_begin then '~' end, v_trigger.name, v_queue_id)
            );
        end if;
    end loop;
end;
$$;

comment on function sluice._create_capture_triggers(regclass, text, jsonb) is
    'Create the triggers of a capture on its table, or on one of its partitions.';
revoke execute on function sluice._create_capture_triggers(regclass, text, jsonb) from public;
grant execute on function sluice._create_capture_triggers(regclass, text, jsonb) to pgq_admin, sluice_admin;
