/*
 * Reasons by which the key of a ready message blocks it. Without limits of keys, a queue with FIFO indexes is read by groups;
 * a consumer that reads it otherwise is not blocked, which the sentence states.
 *
 * Reads: the indexes of keys (sluice._limit_indexes, pgmq.create_fifo_index), one entry for each reason.
 */
create or replace function sluice._explain_key(i_queue_name text, i_found jsonb, i_may_read boolean)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_table constant text := pgmq.format_table_name(i_queue_name, 'q');
    v_msg_id constant bigint := (i_found ->> 'msg_id')::bigint;
    v_key constant text := case when i_may_read then format('key %L', i_found ->> 'key') else 'its key' end;
    v_now constant timestamptz := clock_timestamp();
    v_limits sluice.queue_settings;
    v_hash bigint;
    v_block record;
    v_key_sql text;
begin
    select l.* into v_limits from sluice.queue_settings as l where l.queue_table = v_table;
    if num_nonnulls(v_limits.key_concurrency, v_limits.when_waiting) > 0 then
        v_key_sql := sluice._limit_key_sql('m');
    elsif pgmq._has_fifo_index(v_table) then
        v_key_sql := pgmq._fifo_key_sql('m');
    else
        return;
    end if;
    execute format('select %s from pgmq.%I as m where m.msg_id = $1', v_key_sql, v_table) using v_msg_id into v_hash;
    if v_hash is null then
        return;
    end if;
    if v_limits.queue_name is null then
        execute format(
            'select m.msg_id, m.vt
             from pgmq.%1$I as m
             where %2$s between $1 and $1 and m.msg_id < $2
             order by %2$s, m.msg_id
             limit 1',
            v_table, v_key_sql
        )
        using v_hash, v_msg_id
        into v_block;
        if v_block.msg_id is not null then
            return query values (
                case when v_block.vt > v_now then v_block.vt end,
                format(
                    'Message %s precedes it in %s and blocks it for consumers that read by group (pgmq.read_grouped); it is %s',
                    v_block.msg_id, v_key, case when v_block.vt > v_now then 'in flight or delayed' else 'visible' end
                ),
                jsonb_build_object('cause', 'key', 'msg_id', v_block.msg_id)
            );
        end if;
        return;
    end if;

    return query
        select p.parked_at, format('Message %s failed and parked %s', p.msg_id, v_key),
            jsonb_build_object(
                'cause', 'key parked', 'msg_id', p.msg_id,
                'sql', case when i_may_read then format('select sluice.unpark_messages(%L, %L)', i_queue_name, p.key) end,
                'command', case when i_may_read then format('pgsluice queue unpark %s %s', sluice._shell_word(i_queue_name), sluice._shell_word(p.key)) end
            )
        from sluice.parked_key as p
        where p.limits_id = v_limits.limits_id and p.key_hash = v_hash;
    if v_limits.when_waiting = 'block' then
        execute format(
            'select m.msg_id, m.vt
             from pgmq.%1$I as m
             where m.read_ct > 0 and m.last_read_at is null and %2$s between $1 and $1 and m.vt > $2
             order by %2$s desc, m.vt
             limit 1',
            v_table, v_key_sql
        )
        using v_hash, v_now
        into v_block;
        if v_block.msg_id is not null then
            return query values (
                v_block.vt, format('Message %s of %s waits for its retry and blocks it; it is retried', v_block.msg_id, v_key),
                jsonb_build_object('cause', 'key retrying', 'msg_id', v_block.msg_id)
            );
        end if;
    end if;
    execute format(
        'select min(c.msg_id) as msg_id, min(c.vt) as vt, count(*) as claimed
         from (
            select m.msg_id, m.vt
            from pgmq.%1$I as m
            where m.vt > m.enqueued_at and m.last_read_at is not null and %2$s between $1 and $1 and m.vt > $2
            order by %2$s desc, m.vt
            limit $3
         ) as c',
        v_table, v_key_sql
    )
    using v_hash, v_now, coalesce(v_limits.key_concurrency, 1)
    into v_block;
    if v_block.claimed >= coalesce(v_limits.key_concurrency, 1) then
        return query values (
            v_block.vt,
            format(
                'Message %s of %s is in flight%s; its lease ends', v_block.msg_id, v_key,
                case when v_limits.key_concurrency > 1 then format(' with %s others, the limit of the key', v_block.claimed - 1) end
            ),
            jsonb_build_object('cause', 'key in flight', 'msg_id', v_block.msg_id)
        );
    end if;
    if v_limits.when_waiting is not null then
        execute format(
            'select m.msg_id
             from pgmq.%1$I as m
             where m.vt <= m.enqueued_at and m.vt <= $3 and %2$s between $1 and $1 and m.msg_id < $2
             order by %2$s, m.msg_id
             limit 1',
            v_table, v_key_sql
        )
        using v_hash, v_msg_id, v_now
        into v_block;
        if v_block.msg_id is not null then
            return query values (
                null::timestamptz, format('Message %s precedes it in %s', v_block.msg_id, v_key),
                jsonb_build_object('cause', 'key order', 'msg_id', v_block.msg_id)
            );
        end if;
    end if;
end;
$$;

comment on function sluice._explain_key(text, jsonb, boolean) is
    'Return the reasons by which other messages of its key block a ready message.';
revoke execute on function sluice._explain_key(text, jsonb, boolean) from public;
grant execute on function sluice._explain_key(text, jsonb, boolean) to sluice_admin;
