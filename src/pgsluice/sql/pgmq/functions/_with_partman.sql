-- A setting, because create_partitioned has exactly PGMQ's arguments. pg_partman is opt-in even where it is installed,
-- because its tables need its own maintenance. The first error is PGMQ's.
create or replace function pgmq._with_partman()
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_manager text := coalesce(nullif(current_setting('sluice.partition_manager', true), ''), 'pgsluice');
    v_version text;
begin
    if v_manager = 'pgsluice' then
        return false;
    end if;
    if v_manager <> 'pg_partman' then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('sluice.partition_manager is %L', v_manager),
            hint = 'set it to pgsluice or to pg_partman, or reset it';
    end if;
    select e.extversion into v_version from pg_extension as e where e.extname = 'pg_partman';
    if not found then
        raise exception using
            message = 'pg_partman is required for partitioned queues',
            detail = 'sluice.partition_manager is ''pg_partman'', but the extension is not installed in this database.',
            hint = 'create the extension, or reset sluice.partition_manager: partitions then need no extension';
    end if;
    if split_part(v_version, '.', 1) <> '4' then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('pg_partman %s is not supported', v_version),
            detail = 'Only version 4 is supported.',
            hint = 'reset sluice.partition_manager: partitions then need no extension';
    end if;
    return true;
end;
$$;

comment on function pgmq._with_partman() is
    'True if the session selects pg_partman (sluice.partition_manager); raise an error if it is not usable.';
revoke execute on function pgmq._with_partman() from public;
grant execute on function pgmq._with_partman() to sluice_admin;
