-- PostgreSQL gives new partitions no statement triggers. Statements that name the partition were not captured so far, nor the
-- rows that it had when it was attached: so its rows are appended, under the lock of the new triggers, which lets no writer
-- pass. A delete by a statement that named the partition is not known.
create or replace function sluice._cover_partition(partition regclass, log_name text, options jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_root constant regclass := pg_partition_root(partition);
    v_was_captured constant boolean := exists (
        select
        from sluice._captures() as c
        where c.trigger_table = partition
          and c.log_name = _cover_partition.log_name
          and c.operation <> 'truncate'
    );
    v_part regclass := partition;
    v_has_rows boolean;
begin
    perform sluice._create_capture_triggers(partition, log_name, options);
    if v_was_captured
        or not coalesce(options -> 'operations' ? 'insert', true)
        or (select c.relkind <> 'r' from pg_class as c where c.oid = partition)
    then
        return;
    end if;
    execute format('select exists (select from %s)', partition) into v_has_rows;
    if not v_has_rows then
        return;
    end if;
    -- Without a key, a snapshot replaces all rows of a copy, so it takes the whole table.
    if (sluice._capture_shape(v_root::oid, options, null::text[], null::oid[])).key_columns is null then
        execute format('lock table %s in share mode', v_root);
        v_part := v_root;
    end if;
    perform sluice._append_table(v_root, v_part, log_name, options);
end;
$$;

comment on function sluice._cover_partition(regclass, text, jsonb) is
    'Create the triggers of a capture on a partition of its table; append the rows of a new partition as snapshot events.';
revoke execute on function sluice._cover_partition(regclass, text, jsonb) from public;
grant execute on function sluice._cover_partition(regclass, text, jsonb) to pgq_admin, sluice_admin;
