create or replace function sluice.release(
    queue_name text, msg_id bigint, read_ct integer, delay integer default 0, enqueued_at timestamptz default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_released integer;
begin
    -- read_ct is the fencing token: a later claim has a higher one, and keeps the message hidden. Without last_read_at the
    -- message is not in flight, so limits do not count it.
    execute format(
        'update pgmq.%I
         set vt = $1, last_read_at = case when $4 > 0 then null else last_read_at end
         where msg_id = $2 and read_ct = $3 and (enqueued_at = $5 or $5 is null)',
        pgmq.format_table_name(queue_name, 'q')
    )
    using clock_timestamp() + make_interval(secs => delay), msg_id, read_ct, delay, enqueued_at;
    get diagnostics v_released = row_count;
    return v_released = 1;
end;
$$;

comment on function sluice.release(text, bigint, integer, integer, timestamptz) is
    'Release a claimed message, visible after delay seconds; false if the claim (msg_id with its read_ct) is stale, or the message has another enqueued_at than the given one.';
revoke execute on function sluice.release(text, bigint, integer, integer, timestamptz) from public;
grant execute on function sluice.release(text, bigint, integer, integer, timestamptz) to sluice_admin, sluice_reader;

/*
 * read_ct stays, because it is the fencing token. So that a claim counts no attempt, a record is written where it would
 * count: if its start was recorded, or if it is the first one, which counts without a record.
 *
 * Calls: sluice._settle_sql; without counting: sluice._tried_messages, sluice._settle_tried. Writes: the queue's table, sluice.attempt.
 */
create or replace function sluice.release(
    queue_name text, msg_ids bigint[], read_cts integer[], delay double precision default 0,
    enqueued_ats timestamptz[] default null, is_attempt boolean default true
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_visible_at timestamptz := clock_timestamp() + make_interval(secs => delay);
    v_message sluice.tried_message;
    v_tried sluice.tried_message[];
begin
    if is_attempt then
        return query execute sluice._settle_sql(
            queue_name, msg_ids, read_cts, enqueued_ats,
            'settled as (
                update pgmq.%1$I as queued
                set vt = $4, last_read_at = case when $5 > 0 then null else queued.last_read_at end
                where queued.msg_id = any (array(select current.msg_id from current))
                returning queued.msg_id
            )'
        )
        using msg_ids, read_cts, enqueued_ats, v_visible_at, delay;
        return;
    end if;
    for v_message in
        select t.* from sluice._tried_messages(queue_name, msg_ids, read_cts, enqueued_ats, null::integer) as t
    loop
        if v_message.outcome = 'done' and v_message.is_noted and v_message.noted_state = 'failed' then
            v_message.outcome := 'stale'; -- settled, and keeps its back-off
        elsif v_message.outcome = 'done' and v_message.is_noted and v_message.noted_state = 'begun' then
            v_message.note := 'released';
            v_message.visible_at := v_visible_at;
        elsif v_message.outcome = 'done' and not v_message.is_noted then
            v_message.note := case when v_message.read_ct <= 1 then 'released' end;
            v_message.visible_at := v_visible_at;
        end if;
        v_tried := v_tried || v_message;
    end loop;
    perform sluice._settle_tried(queue_name, v_tried);
    return query select t.msg_id, t.outcome from unnest(v_tried) as t;
end;
$$;

comment on function sluice.release(text, bigint[], integer[], double precision, timestamptz[], boolean) is
    'Release claimed messages, visible after delay seconds, with is_attempt false without counting an attempt; returns for each claim, in order: done, stale (claimed again since, or without counting: failed since) or gone (not in the queue, or its message has another enqueued_at than the given one).';
revoke execute on function sluice.release(text, bigint[], integer[], double precision, timestamptz[], boolean) from public;
grant execute on function sluice.release(text, bigint[], integer[], double precision, timestamptz[], boolean) to sluice_admin, sluice_reader;
