-- PGMQ's pgmq.create keeps archives for ever, which fills disks.
--
-- Calls: pgmq.create, pgmq.create_unlogged, sluice._queue_settings. Writes: pgmq.meta, sluice.queue_settings.
create or replace function sluice.create_queue(
    queue_name text, archive_retention interval default '7 days', is_unlogged boolean default false
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_exists boolean;
begin
    if archive_retention is not null then
        perform sluice._queue_settings(
            null::sluice.queue_settings, jsonb_build_object('archive_retention', archive_retention::text), null::text
        );
    end if;
    v_exists := exists (select from pgmq.meta as m where m.queue_name = create_queue.queue_name);
    if is_unlogged then
        perform pgmq.create_unlogged(queue_name);
    else
        perform pgmq.create(queue_name);
    end if;
    if not v_exists and archive_retention is not null then
        -- Another session that creates it concurrently may have stored its own.
        insert into sluice.queue_settings (queue_name, archive_retention)
        values (create_queue.queue_name, create_queue.archive_retention)
        on conflict on constraint queue_settings_pkey do nothing;
    end if;
    return not v_exists;
end;
$$;

comment on function sluice.create_queue(text, interval, boolean) is
    'Create a work queue whose archived messages are deleted after a retention, by default 7 days; null: never. True if it did not exist; an existing queue keeps its options.';
revoke execute on function sluice.create_queue(text, interval, boolean) from public;
grant execute on function sluice.create_queue(text, interval, boolean) to sluice_admin;
