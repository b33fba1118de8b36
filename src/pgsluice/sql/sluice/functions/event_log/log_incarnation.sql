-- Security definer: readers of a log need no rights on pgq.origin.
create or replace function sluice.log_incarnation(log_name text, with_timeline boolean default false)
returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id constant integer := (pgq._require_log(log_name)).queue_id;
begin
    -- Ticks count from 1 in each log, and snapshots are valid in one cluster only. A log dropped and created again gets a new
    -- id, a copy of the database in this server has another oid, and sluice.after_restore() writes a new incarnation.
    -- pg_upgrade, which continues ticks and transaction ids, keeps all three.
    perform pgq._refuse_restored(v_queue_id);
    return concat_ws(
        '/',
        (select o.incarnation from pgq.origin as o where o.queue_id = v_queue_id and o.part = 0),
        (select d.oid from pg_database as d where d.datname = current_database()),
        v_queue_id,
        -- A promoted server, or one recovered to an earlier time, continues with the same ids for other transactions. A tick
        -- reveals this by its number and snapshot; a snapshot alone does not. The name of a WAL file starts with the timeline.
        case when with_timeline then left(pg_walfile_name(pg_current_wal_lsn()), 8) end
    );
end;
$$;

comment on function sluice.log_incarnation(text, boolean) is
    'Return the identity of this event log, which differs from other logs of the same name, here or in another cluster; with the timeline also before and after a promotion or recovery of the server.';
revoke execute on function sluice.log_incarnation(text, boolean) from public;
grant execute on function sluice.log_incarnation(text, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
