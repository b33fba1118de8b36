-- As send_batch.sql does it, and for the reasons given there, in fewer steps.
--
-- Calls: pgmq.send, sluice._deduplication, sluice._validate_deduplication_keys. Writes: the queue's table,
-- sluice.deduplication_key.
create or replace function sluice.send(
    queue_name text, msg jsonb, deduplication_key text, headers jsonb, delay timestamptz
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_space record;
    v_msg_id bigint;
begin
    perform sluice._validate_deduplication_keys(array[msg], array[deduplication_key]);
    v_space := sluice._deduplication(queue_name);
    if deduplication_key is null then
        return pgmq.send(queue_name, msg, headers, delay);
    end if;

    select k.msg_id
    into v_msg_id
    from sluice.deduplication_key as k
    where k.key = deduplication_key
      and k.incarnation = v_space.incarnation
      and k.is_unlogged = v_space.is_unlogged
      and k.expires_at > v_now;
    if found then
        return v_msg_id;
    end if;

    insert into sluice.deduplication_key as k (is_unlogged, incarnation, key, expires_at)
    values (v_space.is_unlogged, v_space.incarnation, deduplication_key, v_now + v_space.deduplication_window)
    on conflict (key, incarnation, is_unlogged) do update
    set msg_id = null, expires_at = excluded.expires_at
    where k.expires_at <= v_now;
    if found then
        v_msg_id := pgmq.send(queue_name, msg, headers, delay);
        update sluice.deduplication_key as k
        set msg_id = v_msg_id
        where k.key = deduplication_key
          and k.incarnation = v_space.incarnation
          and k.is_unlogged = v_space.is_unlogged;
        return v_msg_id;
    end if;

    -- Somebody else has committed it since; the row is locked and stays.
    select k.msg_id
    into v_msg_id
    from sluice.deduplication_key as k
    where k.key = deduplication_key
      and k.incarnation = v_space.incarnation
      and k.is_unlogged = v_space.is_unlogged;
    return v_msg_id;
end;
$$;

comment on function sluice.send(text, jsonb, text, jsonb, timestamptz) is
    'Append one message, visible from the given time on, unless its key is known; returns the msg_id it was first sent with.';
revoke execute on function sluice.send(text, jsonb, text, jsonb, timestamptz) from public;
grant execute on function sluice.send(text, jsonb, text, jsonb, timestamptz) to sluice_admin, sluice_writer;

create or replace function sluice.send(
    queue_name text, msg jsonb, deduplication_key text, headers jsonb default null, delay integer default 0
)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
    select sluice.send(queue_name, msg, deduplication_key, headers, pgmq._visible_from(delay));
$$;

comment on function sluice.send(text, jsonb, text, jsonb, integer) is
    'Append one message, visible after delay seconds, unless its key is known; returns the msg_id it was first sent with.';
revoke execute on function sluice.send(text, jsonb, text, jsonb, integer) from public;
grant execute on function sluice.send(text, jsonb, text, jsonb, integer) to sluice_admin, sluice_writer;
