-- A channel is an identifier: at most 63 bytes. Names of queues that leave no room for the prefix come from PGMQ; a log's name
-- may be longer, so its channel has its number.
create or replace function sluice.notify_channel(queue_name text, is_log boolean default false)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text;
begin
    if is_log then
        return format('sluice.log_%s', (pgq._require_log(queue_name)).queue_id);
    end if;
    v_channel := 'sluice.' || pgmq.format_table_name(queue_name, 'q')::name;
    if octet_length(v_channel) > 63 then
        return 'sluice.q_' || md5(v_channel);
    end if;
    return v_channel;
end;
$$;

comment on function sluice.notify_channel(text, boolean) is
    'Return the channel on which the notifier announces readable messages of a queue; of an event log, that on which each tick is notified with its tick_id, and events that share groups can claim before a tick without one. sluice.listen listens to it.';
revoke execute on function sluice.notify_channel(text, boolean) from public;
grant execute on function sluice.notify_channel(text, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader, sluice_monitor;
