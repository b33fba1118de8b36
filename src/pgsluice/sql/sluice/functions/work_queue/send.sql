-- Like send_batch.sql, which has the reasons, in fewer steps.
--
-- Calls: pgmq.send, sluice._deduplication, sluice._take_deduplication_keys, sluice._note_deduplication_ids. Writes: the queue's table.
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
    v_key record;
    v_msg_id bigint;
begin
    v_space := sluice._deduplication(queue_name, array[msg], array[deduplication_key]);
    if deduplication_key is null then
        return pgmq.send(queue_name, msg, headers, delay);
    end if;

    v_key := sluice._take_deduplication_keys(
        v_space.incarnation, v_space.is_unlogged, deduplication_key, v_now, v_now + v_space.deduplication_window
    );
    if not v_key.is_taken then
        return v_key.msg_id;
    end if;
    v_msg_id := pgmq.send(queue_name, msg, headers, delay);
    perform sluice._note_deduplication_ids(v_space.incarnation, v_space.is_unlogged, deduplication_key, v_msg_id);
    return v_msg_id;
end;
$$;

comment on function sluice.send(text, jsonb, text, jsonb, timestamptz) is
    'Append one message, visible from the given time on, unless it is a duplicate by its key; returns the msg_id of the first send.';
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
    'Append one message, visible after delay seconds, unless it is a duplicate by its key; returns the msg_id of the first send.';
revoke execute on function sluice.send(text, jsonb, text, jsonb, integer) from public;
grant execute on function sluice.send(text, jsonb, text, jsonb, integer) to sluice_admin, sluice_writer;
