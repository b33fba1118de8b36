create or replace function sluice._refuse_stage(stage_id bigint, detail text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '55000',
        message = format('stage %s has lost rows', stage_id),
        detail = detail,
        hint = 'write the rows again: none was sent';
end;
$$;

comment on function sluice._refuse_stage(bigint, text) is
    'Raise an error: the rows of a stage are gone, so their transaction must not commit.';
revoke execute on function sluice._refuse_stage(bigint, text) from public;
grant execute on function sluice._refuse_stage(bigint, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
