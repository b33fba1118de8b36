-- Never waits: an abandoned task may still fill its stage, which is left to the next call, finally to sluice.maintain().
--
-- Security definer: as for sluice.create_stage. Only stages of the caller.
create or replace function sluice.drop_stages(sink_id text, version bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_sink(sink_id, version);
    return sluice._drop_stages(array(
        select s.stage_id
        from sluice.stage as s
        where s.sink_id = drop_stages.sink_id
          and s.version <= drop_stages.version
          and s.made_by = sluice._caller()
        order by s.stage_id
    ));
end;
$$;

comment on function sluice.drop_stages(text, bigint) is
    'Drop the stages of a sink for this version and earlier ones; returns their number. Stages in use by another session stay.';
revoke execute on function sluice.drop_stages(text, bigint) from public;
grant execute on function sluice.drop_stages(text, bigint) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
