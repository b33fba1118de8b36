create or replace function pgmq.detach_archive(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.format_table_name(queue_name, 'a'); -- raises PGMQ's errors
    raise warning using
        message = 'detach_archive(queue_name) is deprecated and is a no-op. It will be removed in PGMQ v2.0. Archive tables are no longer member objects.',
        hint = 'to keep an archive after drop_queue, rename its table first';
end;
$$;

comment on function pgmq.detach_archive(text) is
    'Deprecated: raises a warning and does nothing.';
revoke execute on function pgmq.detach_archive(text) from public;
grant execute on function pgmq.detach_archive(text) to sluice_admin;
