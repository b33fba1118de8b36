-- Faster, as its messages are in no log: a crash of the server, or the promotion of a standby, empties the queue. The
-- archive is logged and stays, and the ids go on: _create_queue.sql says how.
create or replace function pgmq.create_unlogged(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Neon stops and starts the server whenever it is idle, and each start is one after a crash.
    if current_setting('neon.timeline_id', true) <> '' then
        raise warning 'queue "%" is unlogged: this server loses its messages whenever it is suspended', queue_name
            using hint = 'create the queue with pgmq.create where messages must not be lost';
    end if;
    perform pgmq._create_queue(queue_name, true);
end;
$$;

comment on function pgmq.create_unlogged(text) is
    'Create a work queue that a crash empties, and its archive, which it does not; keeps the kind of a queue that exists.';
revoke execute on function pgmq.create_unlogged(text) from public;
grant execute on function pgmq.create_unlogged(text) to sluice_admin;
