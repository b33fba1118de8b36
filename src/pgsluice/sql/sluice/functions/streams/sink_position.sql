-- The lock is held to the end of the transaction: of two writers of one sink who ask for its position and go on from there, the second
-- goes on from where the first ended.
create or replace function sluice.sink_position(sink_id text)
returns table (version bigint, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_sink(sink_id, 0::bigint);
    perform sluice._lock_sink(sink_id);
    return query
        select c.version, c.detail from sluice.sink_commit as c where c.sink_id = sink_position.sink_id;
end;
$$;

comment on function sluice.sink_position(text) is
    'The newest version of a sink whose rows are here, and what was noted with it; no row: none is. Other writers that ask for the same sink wait for the end of this transaction.';
revoke execute on function sluice.sink_position(text) from public;
grant execute on function sluice.sink_position(text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
