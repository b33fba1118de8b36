-- Nobody is waited for: a task that was given up may still fill its stage, and is left to the next one who comes, at the last to
-- sluice.maintain().
--
-- Security definer: as for sluice.create_stage. Only what the caller made.
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
    'Drop what a sink staged for this version and for those before; returns how many stages. Those in use by somebody else stay.';
revoke execute on function sluice.drop_stages(text, bigint) from public;
grant execute on function sluice.drop_stages(text, bigint) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
