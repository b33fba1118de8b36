create or replace function sluice._drop_stages(stages bigint[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stage_id bigint;
    v_dropped integer := 0;
begin
    foreach v_stage_id in array stages
    loop
        -- Its row first: of two sessions that drop one stage, the second has nothing to do.
        perform from sluice.stage as s where s.stage_id = v_stage_id for update skip locked;
        continue when not found;
        if to_regclass(format('sluice.stage_%s', v_stage_id)) is not null then
            continue when not pgq._lock_tables(
                array[format('sluice.stage_%s', v_stage_id)::regclass], 'access exclusive', 0
            );
            execute format('drop table sluice.stage_%s', v_stage_id);
        end if;
        delete from sluice.stage as s where s.stage_id = v_stage_id;
        v_dropped := v_dropped + 1;
    end loop;
    return v_dropped;
end;
$$;

comment on function sluice._drop_stages(bigint[]) is
    'Drop stages, except those in use by another session; returns their number.';
revoke execute on function sluice._drop_stages(bigint[]) from public;
grant execute on function sluice._drop_stages(bigint[]) to sluice_admin;
