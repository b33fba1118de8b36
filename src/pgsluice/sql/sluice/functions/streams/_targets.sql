create or replace function sluice._targets(stage_id bigint, columns text[], kind text)
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_targets text[];
begin
    if kind = any (columns) then
        execute format('select array_agg(distinct s.%I) from sluice.stage_%s as s', kind, stage_id) into v_targets;
    end if;
    if not kind = any (columns) or array_position(v_targets, null) is not null then
        raise exception using
            errcode = '22004',
            message = format('rows of stage %s name no %s', stage_id, kind),
            hint = format('pass the name of the %1$s, or set the column %1$I in each row', kind);
    end if;
    return coalesce(v_targets, '{}');
end;
$$;

comment on function sluice._targets(bigint, text[], text) is
    'Return the distinct queues or logs that the rows of a stage name; raise an error if a row names none.';
revoke execute on function sluice._targets(bigint, text[], text) from public;
grant execute on function sluice._targets(bigint, text[], text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
