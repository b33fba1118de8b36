-- One cycle of a stateless notifier, for pg_cron. It polls every queue, and announces unread messages again and again, so
-- a notifier process is better. While one is running this does nothing.
create or replace function sluice.notify_ready()
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number constant integer := 0; -- its number among the notifiers
    v_standby constant interval := '2 seconds';
begin
    if not (
        sluice.notifier_pulse(
            v_number, v_standby, '{}'::oid[], '{}'::text[], '{}'::bigint[], '{}'::bigint[], '{}'::boolean[], '0'::interval,
            '0'::interval
        )
    ).is_leader then
        return 0;
    end if;
    return sluice.notifier_wake(
        array(
            select look.queue_name
            from (select array_agg(queue.queue_name) as names from sluice.notifier_queues() as queue) as every
            cross join sluice.notifier_poll(every.names, '{}'::bigint[], '{}'::timestamptz[]) as look
            where look.first_ready is not null or look.first_due is not null
        ),
        heartbeat => true
    );
end;
$$;

comment on function sluice.notify_ready() is
    'Notify the listeners of every queue with readable messages at the commit, unless a notifier is running; call it every second. Returns the number of channels notified.';
revoke execute on function sluice.notify_ready() from public;
grant execute on function sluice.notify_ready() to sluice_admin, sluice_reader;
