-- A channel is an identifier: at most 63 bytes. Names of queues that leave no room for the prefix come from PGMQ; a log's name
-- may be longer, so its channel has its number.
create or replace function sluice.notify_channel(queue_name text, kind text default 'queue')
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text;
begin
    if kind = 'log' then
        return format('sluice.log_%s', (pgq._require_log(queue_name)).queue_id);
    end if;
    if kind is null or kind not in ('queue', 'results') then
        raise exception using
            errcode = '22023',
            message = format('%L is not a kind of channel', kind),
            hint = 'use queue, log or results';
    end if;
    v_channel := 'sluice.' || case kind when 'results' then 'results_' else '' end || pgmq.format_table_name(queue_name, 'q')::name;
    if octet_length(v_channel) > 63 then
        return format('sluice.%s_%s', case kind when 'results' then 'results' else 'q' end, md5(v_channel));
    end if;
    return v_channel;
end;
$$;

comment on function sluice.notify_channel(text, text) is
    'Return the channel on which the notifier announces readable messages of a queue; of an event log, that on which each tick is notified with its tick_id, and events that share groups can claim before a tick without one; of the results of a queue, that on which sessions that settle messages notify their msg_ids. kind is queue, log or results. sluice.listen listens to it.';
revoke execute on function sluice.notify_channel(text, text) from public;
grant execute on function sluice.notify_channel(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader, sluice_monitor;
