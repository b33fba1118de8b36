-- A channel is an identifier: at most 63 bytes. Names that leave no room for the prefix come from PGMQ.
create or replace function sluice.notify_channel(queue_name text)
returns text
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text := 'sluice.' || pgmq.format_table_name(queue_name, 'q')::name;
begin
    if octet_length(v_channel) > 63 then
        return 'sluice.q_' || md5(v_channel);
    end if;
    return v_channel;
end;
$$;

comment on function sluice.notify_channel(text) is
    'Return the channel on which the notifier announces readable messages of a queue; sluice.listen listens to it.';
revoke execute on function sluice.notify_channel(text) from public;
grant execute on function sluice.notify_channel(text) to sluice_admin, sluice_reader, sluice_monitor;
