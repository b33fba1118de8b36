create or replace function sluice._stages(stages bigint[], row_counts bigint[])
returns table (stage_id bigint, columns text[], row_count bigint)
language plpgsql
stable
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
    return query
        select s.stage_id, s.columns, g.row_count
        from unnest(stages, row_counts) with ordinality as g (stage_id, row_count, position)
        join sluice.stage as s on s.stage_id = g.stage_id
        order by g.position;
end;
$$;

comment on function sluice._stages(bigint[], bigint[]) is
    'Return stages in the given order, with their columns and required row counts; raise an error if one does not exist.';
revoke execute on function sluice._stages(bigint[], bigint[]) from public;
grant execute on function sluice._stages(bigint[], bigint[]) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
