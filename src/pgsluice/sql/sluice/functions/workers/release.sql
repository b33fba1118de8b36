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

create or replace function sluice.release(
    queue_name text, msg_ids bigint[], read_cts integer[], delay integer default 0, enqueued_ats timestamptz[] default null
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute sluice._settle_sql(
        queue_name, msg_ids, read_cts, enqueued_ats,
        'settled as (
            update pgmq.%1$I as queued
            set vt = $4, last_read_at = case when $5 > 0 then null else queued.last_read_at end
            where queued.msg_id = any (array(select current.msg_id from current))
            returning queued.msg_id
        )'
    )
    using msg_ids, read_cts, enqueued_ats, clock_timestamp() + make_interval(secs => delay), delay;
end;
$$;

comment on function sluice.release(text, bigint[], integer[], integer, timestamptz[]) is
    'Release claimed messages, visible after delay seconds; returns for each claim, in order: done, stale (claimed again since) or gone (not in the queue, or its message has another enqueued_at than the given one).';
revoke execute on function sluice.release(text, bigint[], integer[], integer, timestamptz[]) from public;
grant execute on function sluice.release(text, bigint[], integer[], integer, timestamptz[]) to sluice_admin, sluice_reader;
