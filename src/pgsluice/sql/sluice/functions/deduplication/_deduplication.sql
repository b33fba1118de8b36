create or replace function sluice._deduplication(
    queue_name text, msgs jsonb[], deduplication_keys text[], deduplication jsonb default null,
    out incarnation bigint, out deduplication_window interval, out is_unlogged boolean, out until text, out on_duplicate text
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := pgmq.format_table_name(queue_name, 'q');
    -- An entry of the index that they are unique in has about 2,700.
    v_key_bytes_max constant integer := 1024;
    v_names constant text[] := array['deduplication_window', 'deduplication_until', 'on_duplicate'];
    v_settings sluice.queue_settings;
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
    select d.deduplication_id, d.deduplication_window, c.relpersistence = 'u', d.deduplication_until, d.on_duplicate
    into incarnation, deduplication_window, is_unlogged, until, on_duplicate
    from pg_class as c
    left join sluice.queue_settings as d on d.queue_table = v_table
    where c.oid = format('pgmq.%I', v_table)::regclass;
    if deduplication is not null then
        v_settings.queue_name := queue_name;
        v_settings.deduplication_window := deduplication_window;
        v_settings.deduplication_until := until;
        v_settings.on_duplicate := on_duplicate;
        perform sluice._with_options(v_settings, deduplication, v_names, 'a message'::text);
        -- The lifetime of a message's key takes the place of the queue's.
        if deduplication ?| array['deduplication_window', 'deduplication_until'] then
            deduplication := jsonb_build_object('deduplication_window', null, 'deduplication_until', null, 'on_duplicate', null)
                || deduplication;
        end if;
        v_settings := sluice._queue_settings(v_settings, deduplication, null::text);
        deduplication_window := v_settings.deduplication_window;
        until := v_settings.deduplication_until;
        on_duplicate := v_settings.on_duplicate;
    end if;
    if deduplication_window is null and until is null then
        raise exception using
            errcode = 'QU004',
            table = coalesce(queue_name, 'NULL'),
            message = format('queue %L has no deduplication window', queue_name),
            hint = format(
                'set a window with sluice.set_queue_options(%L, ''{"deduplication_window": "5 minutes"}''), pass one with the message, or send without a key',
                queue_name
            );
    end if;
end;
$$;

comment on function sluice._deduplication(text, jsonb[], text[], jsonb) is
    'Raise an error unless each message has a deduplication key or null, and each key can be stored. Return the namespace of a queue''s deduplication keys: its id, null if it has none yet, its deduplication window, true if a crash empties it, until and on_duplicate: those of the queue, or given with a message.';
revoke execute on function sluice._deduplication(text, jsonb[], text[], jsonb) from public;
grant execute on function sluice._deduplication(text, jsonb[], text[], jsonb) to sluice_admin, sluice_writer;
