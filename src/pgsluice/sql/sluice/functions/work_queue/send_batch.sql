/*
 * Sends messages, each once per deduplication key within the queue's window; the form with a time does the work.
 *
 * A key is inserted before its message is sent. Of two concurrent senders of one key, the second waits at the unique key
 * until the first commits, and then gets its id, or rolls back, and then inserts its own. Keys are inserted in one order, so
 * that two batches with the same keys in opposite orders wait and do not deadlock. An existing key is read without a lock:
 * sending a duplicate does not wait.
 *
 * Above READ COMMITTED the waiting sender gets a serialization failure instead, because the other's row is not in its
 * snapshot; the retried transaction finds it.
 *
 * The time is that of the call, before any wait: a sender that started within the window is within it, however long the
 * first transaction took.
 *
 * A key outlives its message: a deleted, archived or purged message is not sent again within the window. It does not outlive
 * its queue (dropped, or an unlogged queue emptied by a crash).
 *
 * Calls: pgmq.send_batch, pgmq._validate_batch_params, sluice._deduplication, sluice._take_deduplication_keys,
 * sluice._note_deduplication_ids. Writes: the queue's table.
 */
create or replace function sluice.send_batch(
    queue_name text, msgs jsonb[], deduplication_keys text[], headers jsonb[], delay timestamptz
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_space record;
    v_keys record;
    v_positions bigint[];
    v_sent_msgs jsonb[];
    v_sent_headers jsonb[];
    v_sent_keys text[];
    v_sent_ids bigint[];
begin
    perform pgmq._validate_batch_params(msgs, headers);
    v_space := sluice._deduplication(queue_name, msgs, deduplication_keys, null::jsonb);
    if v_space.until is not null or v_space.on_duplicate is not null then
        return query select sluice.send_batch(queue_name, msgs, deduplication_keys, headers, delay, null::jsonb);
        return;
    end if;

    v_keys := sluice._take_deduplication_keys(
        v_space.incarnation, v_space.is_unlogged, deduplication_keys, v_now, v_now + v_space.deduplication_window
    );

    -- A message without a key is always sent; of several with one key, the first.
    select array_agg(item.position order by item.position), array_agg(item.msg order by item.position),
        array_agg(item.header order by item.position), array_agg(item.key order by item.position)
    into v_positions, v_sent_msgs, v_sent_headers, v_sent_keys
    from (
        select a.*, row_number() over (partition by a.key order by a.position) as nth
        from unnest(msgs, headers, deduplication_keys) with ordinality as a (msg, header, key, position)
    ) as item
    left join unnest(v_keys.taken_keys) as taken (key) on taken.key = item.key
    where item.key is null
       or (taken.key is not null and item.nth = 1);

    if v_positions is not null then
        v_sent_ids := array(select pgmq.send_batch(queue_name, v_sent_msgs, v_sent_headers, delay));
        perform sluice._note_deduplication_ids(
            v_space.incarnation, v_space.is_unlogged, v_sent_keys, v_sent_ids, v_now + v_space.deduplication_window
        );
    end if;

    return query
        select coalesce(known.msg_id, sent.msg_id, first_sent.msg_id)
        from unnest(deduplication_keys) with ordinality as asked (key, position)
        left join unnest(v_keys.known_keys, v_keys.known_ids) as known (key, msg_id) on known.key = asked.key
        left join unnest(v_positions, v_sent_ids) as sent (position, msg_id) on sent.position = asked.position
        left join unnest(v_sent_keys, v_sent_ids) as first_sent (key, msg_id) on first_sent.key = asked.key
        order by asked.position;
end;
$$;

comment on function sluice.send_batch(text, jsonb[], text[], jsonb[], timestamptz) is
    'Append messages, visible from the given time on, except duplicates by their keys; returns for each the msg_id of its first send.';
revoke execute on function sluice.send_batch(text, jsonb[], text[], jsonb[], timestamptz) from public;
grant execute on function sluice.send_batch(text, jsonb[], text[], jsonb[], timestamptz) to sluice_admin, sluice_writer;

-- One after the other, in the order of the messages. Security definer, to lock the keys before, in one order: batches with the same keys in
-- other orders wait for each other, and do not deadlock.
--
-- Calls: pgmq._validate_batch_params, sluice._deduplication, sluice.send. Writes: the queue's table, sluice.deduplication_key.
create or replace function sluice.send_batch(
    queue_name text, msgs jsonb[], deduplication_keys text[], headers jsonb[], delay timestamptz, deduplication jsonb
)
returns setof bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_space record;
    v_key text;
    v_ids bigint[] := '{}';
begin
    perform pgmq._validate_batch_params(msgs, headers);
    v_space := sluice._deduplication(queue_name, msgs, deduplication_keys, deduplication);
    for v_key in select distinct a.key from unnest(deduplication_keys) as a (key) where a.key is not null order by 1
    loop
        perform
        from sluice.deduplication_key as k
        where k.key = v_key
          and k.incarnation = v_space.incarnation
          and k.is_unlogged = v_space.is_unlogged
        for update;
        if not found and v_space.incarnation is not null then
            insert into sluice.deduplication_key as k (kind, is_unlogged, incarnation, key, until, expires_at, owned_by)
            values (
                'message', v_space.is_unlogged, v_space.incarnation, v_key, coalesce(v_space.until, 'window'), clock_timestamp(),
                sluice._caller_id()
            )
            on conflict do nothing;
        end if;
    end loop;
    for v_position in 1..cardinality(msgs)
    loop
        v_ids := v_ids || sluice.send(
            queue_name, msgs[v_position], deduplication_keys[v_position], headers[v_position], delay, deduplication
        );
    end loop;
    return query select sent.msg_id from unnest(v_ids) with ordinality as sent (msg_id, position) order by sent.position;
end;
$$;

comment on function sluice.send_batch(text, jsonb[], text[], jsonb[], timestamptz, jsonb) is
    'Append messages, visible from the given time on, except duplicates by their keys; returns for each the msg_id of its first send. deduplication is as for sluice.send.';
revoke execute on function sluice.send_batch(text, jsonb[], text[], jsonb[], timestamptz, jsonb) from public;
grant execute on function sluice.send_batch(text, jsonb[], text[], jsonb[], timestamptz, jsonb) to sluice_admin, sluice_writer;

create or replace function sluice.send_batch(
    queue_name text, msgs jsonb[], deduplication_keys text[], headers jsonb[] default null, delay integer default 0,
    deduplication jsonb default null
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if deduplication is null then
        return query select sluice.send_batch(queue_name, msgs, deduplication_keys, headers, pgmq._visible_from(delay));
    else
        return query
            select sluice.send_batch(queue_name, msgs, deduplication_keys, headers, pgmq._visible_from(delay), deduplication);
    end if;
end;
$$;

comment on function sluice.send_batch(text, jsonb[], text[], jsonb[], integer, jsonb) is
    'Append messages, visible after delay seconds, except duplicates by their keys; returns for each the msg_id of its first send. deduplication is as for sluice.send.';
revoke execute on function sluice.send_batch(text, jsonb[], text[], jsonb[], integer, jsonb) from public;
grant execute on function sluice.send_batch(text, jsonb[], text[], jsonb[], integer, jsonb) to sluice_admin, sluice_writer;
