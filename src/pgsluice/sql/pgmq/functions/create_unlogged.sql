-- Faster, as its messages are not in the WAL: a crash of the server, or the promotion of a standby, empties the queue.
-- The archive and the sequence are logged: see _create_queue.sql.
create or replace function pgmq.create_unlogged(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Neon suspends an idle server, and each start is a crash recovery.
    if current_setting('neon.timeline_id', true) <> '' then
        raise warning 'queue "%" is unlogged: this server loses its messages whenever it is suspended', queue_name
            using hint = 'create the queue with pgmq.create if messages must not be lost';
    end if;
    perform pgmq._create_queue(queue_name, true);
end;
$$;

comment on function pgmq.create_unlogged(text) is
    'Create an unlogged work queue, which a crash empties, and its logged archive; keeps the kind of an existing queue.';
revoke execute on function pgmq.create_unlogged(text) from public;
grant execute on function pgmq.create_unlogged(text) to sluice_admin;
