create or replace function sluice._stages(stages bigint[], row_counts bigint[], kind text, target text)
returns table (stage_id bigint, columns text[], row_count bigint, targets text[])
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lost bigint;
begin
    if stages is null or row_counts is null then
        raise exception using
            errcode = '22004',
            message = 'stages or row_counts is null',
            hint = 'pass the number of each stage, and its row count';
    end if;
    if cardinality(stages) <> cardinality(row_counts) then
        raise exception using
            errcode = '22023',
            message = format('%s stages have %s row counts', cardinality(stages), cardinality(row_counts)),
            hint = 'pass one row count per stage';
    end if;
    select g.stage_id
    into v_lost
    from unnest(stages) as g (stage_id)
    where not exists (select from sluice.stage as s where s.stage_id = g.stage_id)
    limit 1;
    if found then
        perform sluice._refuse_stage(v_lost, 'It was dropped.');
    end if;
    for stage_id, columns, row_count in
        select s.stage_id, s.columns, g.row_count
        from unnest(stages, row_counts) with ordinality as g (stage_id, row_count, position)
        join sluice.stage as s on s.stage_id = g.stage_id
        order by g.position
    loop
        targets := array[target];
        if target is null then
            if kind = any (columns) then
                execute format('select array_agg(distinct s.%I) from sluice.stage_%s as s', kind, stage_id) into targets;
            end if;
            if not kind = any (columns) or array_position(targets, null) is not null then
                raise exception using
                    errcode = '22004',
                    message = format('rows of stage %s name no %s', stage_id, kind),
                    hint = format('pass the name of the %1$s, or set the column %1$I in each row', kind);
            end if;
            targets := coalesce(targets, '{}');
        end if;
        return next;
    end loop;
end;
$$;

comment on function sluice._stages(bigint[], bigint[], text, text) is
    'Return stages in the given order, with their columns, required row counts and targets: the one given, or the distinct queues or logs (kind) that the rows name; raise an error if a stage does not exist, or a row names no target.';
revoke execute on function sluice._stages(bigint[], bigint[], text, text) from public;
grant execute on function sluice._stages(bigint[], bigint[], text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
