create or replace function sluice._deduplication(
    queue_name text, out incarnation bigint, out deduplication_window interval, out is_unlogged boolean
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := pgmq.format_table_name(queue_name, 'q');
begin
    -- The table's persistence, not pgmq.meta's: the owner can change it, and keys must not outlive the messages.
    select d.deduplication_id, d.deduplication_window, c.relpersistence = 'u'
    into incarnation, deduplication_window, is_unlogged
    from pg_class as c
    left join sluice.queue_settings as d on d.queue_table = v_table and d.deduplication_window is not null
    where c.oid = format('pgmq.%I', v_table)::regclass;
    if incarnation is null then
        raise exception using
            errcode = 'QU004',
            table = coalesce(queue_name, 'NULL'),
            message = format('queue %L has no deduplication window', queue_name),
            hint = format(
                'set a window with sluice.set_queue_options(%L, ''{"deduplication_window": "5 minutes"}''), or send without a key', queue_name
            );
    end if;
end;
$$;

comment on function sluice._deduplication(text) is
    'Return the namespace of a queue''s deduplication keys: its id, its deduplication window, and true if a crash empties it.';
revoke execute on function sluice._deduplication(text) from public;
grant execute on function sluice._deduplication(text) to sluice_admin, sluice_writer;
