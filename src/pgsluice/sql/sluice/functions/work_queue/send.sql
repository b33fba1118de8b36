-- Like send_batch.sql, which has the reasons, in fewer steps. The form with deduplication does more: a key until its message is claimed or
-- done, and duplicates that change it.
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
    v_space := sluice._deduplication(queue_name, array[msg], array[deduplication_key], null::jsonb);
    if deduplication_key is null then
        return pgmq.send(queue_name, msg, headers, delay);
    end if;
    if v_space.until is not null or v_space.on_duplicate is not null then
        return sluice.send(queue_name, msg, deduplication_key, headers, delay, null::jsonb);
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

/*
 * Security definer: writers cannot read or update messages. Only a message that was stored here with the key is changed, by a role that
 * may use the key. Such a row of the ledger has until, and sluice._note_deduplication_ids writes none. The right to insert is that of the
 * session's role.
 *
 * A key ends with the claim or the end of its message, so each duplicate looks at the message. A message that a duplicate found
 * unclaimed stays locked until the sender's commit: it is claimed afterwards, by a reader that sees what the sender wrote. A message that is
 * being claimed is waited for. The key of an ended message is taken by an update of the row that was read: of two sessions the second
 * waits, finds the row changed, and looks again.
 *
 * A message whose lease expired counts as claimed, as its reader may still acknowledge it.
 *
 * Calls: pgmq.send, sluice._deduplication, sluice._require_sender. Writes: the queue's table, sluice.deduplication_key,
 * sluice.queue_settings.
 */
create or replace function sluice.send(
    queue_name text, msg jsonb, deduplication_key text, headers jsonb, delay timestamptz, deduplication jsonb
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_sender constant regrole := sluice._caller_id();
    v_space record;
    v_key record;
    v_until text;
    v_expires_at timestamptz;
    v_is_current boolean;
    v_changed integer;
    v_msg_id bigint;
begin
    v_space := sluice._deduplication(queue_name, array[msg], array[deduplication_key], deduplication);
    if not has_table_privilege(v_sender, format('pgmq.%I', v_table)::regclass, 'insert') then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('permission denied for table %s', v_table);
    end if;
    if deduplication_key is null then
        return pgmq.send(queue_name, msg, headers, delay);
    end if;
    if v_space.incarnation is null then
        -- The queue has no options yet.
        insert into sluice.queue_settings (queue_name) values (sluice._registered_name(queue_name))
        on conflict on constraint queue_settings_pkey do nothing;
        v_space := sluice._deduplication(queue_name, array[msg], array[deduplication_key], deduplication);
    end if;
    v_until := coalesce(v_space.until, 'window');
    v_expires_at := v_now + coalesce(v_space.deduplication_window, '1 hour');

    loop
        insert into sluice.deduplication_key as k (kind, is_unlogged, incarnation, key, until, expires_at, owned_by)
        values ('message', v_space.is_unlogged, v_space.incarnation, deduplication_key, v_until, v_expires_at, v_sender)
        on conflict do nothing;
        exit when found;
        select k.msg_id, k.until, k.expires_at, k.owned_by
        into v_key
        from sluice.deduplication_key as k
        where k.key = deduplication_key
          and k.incarnation = v_space.incarnation
          and k.is_unlogged = v_space.is_unlogged;
        -- Maintenance has removed it since.
        continue when not found;
        -- sluice.send_batch of this transaction has taken it.
        exit when v_key.msg_id is null and v_key.owned_by = v_sender;

        v_is_current := null;
        if coalesce(v_key.until, 'window') = 'window' then
            v_is_current := v_key.expires_at > v_now;
        end if;
        if v_is_current is not false and v_key.until is not null and v_space.on_duplicate is not null then
            perform sluice._require_sender(v_key.owned_by, format('deduplication key %L', deduplication_key));
            execute format(
                'update pgmq.%I set vt = $2 %s where msg_id = $1 and last_read_at is null',
                v_table,
                case when v_space.on_duplicate = 'replace' then ', message = $3, headers = $4' end
            )
            using v_key.msg_id, coalesce(delay, v_now), msg, headers;
            get diagnostics v_changed = row_count;
            if v_changed = 1 then
                return v_key.msg_id;
            end if;
        end if;
        if v_is_current is null then
            execute format(
                'select true from pgmq.%I where msg_id = $1 %s',
                v_table,
                case when v_key.until = 'claimed' then 'and last_read_at is null for share' end
            )
            using v_key.msg_id
            into v_is_current;
        end if;
        if v_is_current then
            perform sluice._require_sender(v_key.owned_by, format('deduplication key %L', deduplication_key));
            return v_key.msg_id;
        end if;

        update sluice.deduplication_key as k
        set msg_id = null, until = v_until, expires_at = v_expires_at, owned_by = v_sender
        where k.key = deduplication_key
          and k.incarnation = v_space.incarnation
          and k.is_unlogged = v_space.is_unlogged
          and k.msg_id is not distinct from v_key.msg_id;
        exit when found;
    end loop;

    v_msg_id := pgmq.send(queue_name, msg, headers, delay);
    update sluice.deduplication_key as k
    set msg_id = v_msg_id, until = v_until, expires_at = v_expires_at
    where k.key = deduplication_key
      and k.incarnation = v_space.incarnation
      and k.is_unlogged = v_space.is_unlogged;
    return v_msg_id;
end;
$$;

comment on function sluice.send(text, jsonb, text, jsonb, timestamptz, jsonb) is
    'Append one message, visible from the given time on, unless it is a duplicate by its key; returns the msg_id of the first send. deduplication: options of the queue for this message, such as {"deduplication_until": "done", "on_duplicate": "replace"}; null: those of the queue.';
revoke execute on function sluice.send(text, jsonb, text, jsonb, timestamptz, jsonb) from public;
grant execute on function sluice.send(text, jsonb, text, jsonb, timestamptz, jsonb) to sluice_admin, sluice_writer;

create or replace function sluice.send(
    queue_name text, msg jsonb, deduplication_key text, headers jsonb default null, delay integer default 0,
    deduplication jsonb default null
)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
    select case
        when deduplication is null then sluice.send(queue_name, msg, deduplication_key, headers, pgmq._visible_from(delay))
        else sluice.send(queue_name, msg, deduplication_key, headers, pgmq._visible_from(delay), deduplication)
    end;
$$;

comment on function sluice.send(text, jsonb, text, jsonb, integer, jsonb) is
    'Append one message, visible after delay seconds, unless it is a duplicate by its key; returns the msg_id of the first send. deduplication is as in the form with a time.';
revoke execute on function sluice.send(text, jsonb, text, jsonb, integer, jsonb) from public;
grant execute on function sluice.send(text, jsonb, text, jsonb, integer, jsonb) to sluice_admin, sluice_writer;
