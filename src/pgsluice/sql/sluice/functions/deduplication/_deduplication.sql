create or replace function sluice._deduplication(
    queue_name text, msgs jsonb[], deduplication_keys text[],
    out incarnation bigint, out deduplication_window interval, out is_unlogged boolean
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := pgmq.format_table_name(queue_name, 'q');
    -- An entry of the index that they are unique in has about 2,700.
    v_key_bytes_max constant integer := 1024;
    v_bytes integer;
begin
    if coalesce(cardinality(deduplication_keys), 0) <> cardinality(msgs) then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format(
                'deduplication_keys array length (%s) must match msgs array length (%s)',
                coalesce(cardinality(deduplication_keys), 0), cardinality(msgs)
            ),
            hint = 'give one key for each message, null for none';
    end if;
    select octet_length(k.key)
    into v_bytes
    from unnest(deduplication_keys) as k (key)
    where octet_length(k.key) not between 1 and v_key_bytes_max
    limit 1;
    if found then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('deduplication key has %s bytes', v_bytes),
            hint = format('use 1 to %s bytes, or null for none; of longer ones send a hash', v_key_bytes_max);
    end if;
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

comment on function sluice._deduplication(text, jsonb[], text[]) is
    'Raise an error unless each message has a deduplication key or null, and each key can be stored. Return the namespace of a queue''s deduplication keys: its id, its deduplication window, and true if a crash empties it.';
revoke execute on function sluice._deduplication(text, jsonb[], text[]) from public;
grant execute on function sluice._deduplication(text, jsonb[], text[]) to sluice_admin, sluice_writer;
