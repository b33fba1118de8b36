create or replace function sluice.forget_sink(sink_id text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_sink_owner(sink_id, true);
    delete from sluice.sink_commit as c where c.sink_id = forget_sink.sink_id;
    return found;
end;
$$;

comment on function sluice.forget_sink(text) is
    'Forget which version of a sink was committed, for a writer that will never write again: what it wrote once it could write twice. For the sink''s owner and sluice_admin. False when none was.';
revoke execute on function sluice.forget_sink(text) from public;
grant execute on function sluice.forget_sink(text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
