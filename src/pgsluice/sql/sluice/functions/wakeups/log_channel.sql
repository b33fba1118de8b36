-- By number, because a channel is an identifier of at most 63 bytes, and a log's name may be longer.
create or replace function sluice.log_channel(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    return format('sluice.log_%s', v_queue_id);
end;
$$;

comment on function sluice.log_channel(text) is
    'Return the channel on which each tick of an event log is notified with its tick_id, and events that share groups can claim before a tick without one; quote it in LISTEN.';
revoke execute on function sluice.log_channel(text) from public;
grant execute on function sluice.log_channel(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
