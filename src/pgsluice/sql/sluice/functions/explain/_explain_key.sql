/*
 * Reasons by which the key of a ready message blocks it. Without limits of keys, a queue with FIFO indexes is read by groups
 * (reason 'key'); a consumer that reads it otherwise is not blocked.
 *
 * Reads: the indexes of keys (sluice._limit_indexes, pgmq.create_fifo_index), one entry for each reason.
 */
create or replace function sluice._explain_key(i_table text, i_msg_id bigint)
returns table (at timestamptz, cause text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_limits sluice.queue_settings;
    v_hash bigint;
    v_block record;
    v_key_sql text;
begin
    select l.* into v_limits from sluice.queue_settings as l where l.queue_table = i_table;
    if num_nonnulls(v_limits.key_concurrency, v_limits.when_waiting) > 0 then
        v_key_sql := sluice._limit_key_sql('m');
    elsif pgmq._has_fifo_index(i_table) then
        v_key_sql := pgmq._fifo_key_sql('m');
    else
        return;
    end if;
    execute format('select %s from pgmq.%I as m where m.msg_id = $1', v_key_sql, i_table) using i_msg_id into v_hash;
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
            i_table, v_key_sql
        )
        using v_hash, i_msg_id
        into v_block;
        if v_block.msg_id is not null then
            return query values (
                case when v_block.vt > v_now then nullif(v_block.vt, 'infinity') end, 'key',
                jsonb_build_object('msg_id', v_block.msg_id, 'is_visible', v_block.vt <= v_now)
            );
        end if;
        return;
    end if;

    return query
        select p.parked_at, 'key parked', jsonb_build_object('msg_id', p.msg_id)
        from sluice.parked_key as p
        where p.limits_id = v_limits.limits_id and p.key_hash = v_hash;
    if v_limits.when_waiting = 'block' then
        execute format(
            'select m.msg_id, m.vt
             from pgmq.%1$I as m
             where m.read_ct > 0 and m.last_read_at is null and %2$s between $1 and $1 and m.vt > $2
             order by %2$s desc, m.vt
             limit 1',
            i_table, v_key_sql
        )
        using v_hash, v_now
        into v_block;
        if v_block.msg_id is not null then
            return query values (nullif(v_block.vt, 'infinity'), 'key retrying', jsonb_build_object('msg_id', v_block.msg_id));
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
        i_table, v_key_sql
    )
    using v_hash, v_now, coalesce(v_limits.key_concurrency, 1)
    into v_block;
    if v_block.claimed >= coalesce(v_limits.key_concurrency, 1) then
        return query values (
            nullif(v_block.vt, 'infinity'), 'key in flight', jsonb_build_object('msg_id', v_block.msg_id, 'others', v_block.claimed - 1)
        );
    end if;
    if v_limits.when_waiting is not null then
        execute format(
            'select m.msg_id
             from pgmq.%1$I as m
             where m.vt <= m.enqueued_at and m.vt <= $3 and %2$s between $1 and $1 and m.msg_id < $2
             order by %2$s, m.msg_id
             limit 1',
            i_table, v_key_sql
        )
        using v_hash, i_msg_id, v_now
        into v_block;
        if v_block.msg_id is not null then
            return query values (null::timestamptz, 'key order', jsonb_build_object('msg_id', v_block.msg_id));
        end if;
    end if;
end;
$$;

comment on function sluice._explain_key(text, bigint) is
    'Return the reasons by which other messages of its key block a ready message.';
revoke execute on function sluice._explain_key(text, bigint) from public;
grant execute on function sluice._explain_key(text, bigint) to sluice_admin;
