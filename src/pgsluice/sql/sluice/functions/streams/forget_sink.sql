create or replace function sluice.forget_sink(sink_id text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_sink_owner(sink_id, true);
    delete from sluice.sink_commit as c where c.key = forget_sink.sink_id;
    return found;
end;
$$;

comment on function sluice.forget_sink(text) is
    'Remove the committed version of a sink whose writer will never write again, as it could then write rows twice. For the sink''s owner and sluice_admin. False if there is none.';
revoke execute on function sluice.forget_sink(text) from public;
grant execute on function sluice.forget_sink(text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
