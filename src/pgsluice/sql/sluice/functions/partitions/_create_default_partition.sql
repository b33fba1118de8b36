-- It holds rows without a partition of their own, so that no send fails if maintenance is late. Created while the parent
-- is locked or new.
create or replace function sluice._create_default_partition(parent regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table name;
    v_role name;
begin
    select c.relname into v_table from pg_class as c where c.oid = parent;
    execute format('create table pgmq.%I partition of pgmq.%I default', v_table || '_default', v_table);
    perform pgmq._tune_storage(format('pgmq.%I', v_table || '_default')::regclass);
    -- metrics() counts it by its name; everything else uses the parent.
    foreach v_role in array array['sluice_admin', 'sluice_reader', 'sluice_monitor']
    loop
        if to_regrole(v_role::text) is not null then
            execute format('grant select (msg_id) on pgmq.%I to %I', v_table || '_default', v_role);
        end if;
    end loop;
end;
$$;

comment on function sluice._create_default_partition(regclass) is
    'Create the default partition of a table that has none.';
revoke execute on function sluice._create_default_partition(regclass) from public;
grant execute on function sluice._create_default_partition(regclass) to sluice_admin;
