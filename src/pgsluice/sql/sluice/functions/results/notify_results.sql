-- In the transaction that settles the messages, so a listener that is notified finds their new state. PostgreSQL sends equal
-- notifications of a transaction once.
create or replace function sluice.notify_results(queue_name text, msg_ids bigint[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := 7900; -- a payload has less than 8,000
    v_payload text := array_to_string(msg_ids, ',');
begin
    -- A full notification queue would fail the commit; waiters also poll.
    if pg_notification_queue_usage() < 0.5 then
        perform pg_notify(
            sluice.notify_channel(queue_name, 'results'::text), case when octet_length(v_payload) <= v_bytes_max then v_payload else '' end
        );
    end if;
end;
$$;

comment on function sluice.notify_results(text, bigint[]) is
    'Wake those who wait for results of these messages when the transaction commits; the notification has the msg_ids, or nothing for all if they are too many.';
revoke execute on function sluice.notify_results(text, bigint[]) from public;
grant execute on function sluice.notify_results(text, bigint[]) to sluice_admin, sluice_reader;
