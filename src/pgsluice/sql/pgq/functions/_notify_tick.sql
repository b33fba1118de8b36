-- One notification a tick, or a look between two ticks (sluice.wake_groups), and none by producers: these would queue up for one
-- lock of the whole server when they commit.
create or replace function pgq._notify_tick(i_queue_id integer, i_tick_id bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- The queue of notifications is full when a listener sleeps in a transaction, and then a commit with one fails. Ticks must
    -- not: who listens looks now and then anyway.
    if pg_notification_queue_usage() < 0.5 then
        perform pg_notify(format('sluice.log_%s', i_queue_id), i_tick_id::text);
    end if;
end;
$$;

comment on function pgq._notify_tick(integer, bigint) is
    'Tell who listens on a log''s channel that there is a tick, or with null that there is something to claim; says nothing while the server''s queue of notifications is half full.';
revoke execute on function pgq._notify_tick(integer, bigint) from public;
grant execute on function pgq._notify_tick(integer, bigint) to pgq_admin, sluice_admin;
