-- The lock is held until the end of the transaction: of two writers of one sink that read its position and continue from
-- there, the second continues from the end of the first. An existing sink is locked by its row: locking names often would
-- leave dead rows.
--
-- Security definer: a writer may not lock the rows.
create or replace function sluice.sink_position(sink_id text)
returns table (version bigint, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_sink(sink_id, 0::bigint);
    perform from sluice.sink_commit as c where c.key = sink_position.sink_id for update;
    if not found then
        perform sluice._lock_name(format('sluice.sink %s', sink_id));
        perform from sluice.sink_commit as c where c.key = sink_position.sink_id for update;
    end if;
    return query
        select c.version, c.detail from sluice.sink_commit as c where c.key = sink_position.sink_id;
end;
$$;

comment on function sluice.sink_position(text) is
    'Return the newest committed version of a sink with its detail; no row: none. Other writers of the sink wait for the end of this transaction.';
revoke execute on function sluice.sink_position(text) from public;
grant execute on function sluice.sink_position(text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
