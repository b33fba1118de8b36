create or replace function sluice.release(queue_name text, msg_id bigint, read_ct integer, delay integer default 0)
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
         where msg_id = $2 and read_ct = $3',
        pgmq.format_table_name(queue_name, 'q')
    )
    using clock_timestamp() + make_interval(secs => delay), msg_id, read_ct, delay;
    get diagnostics v_released = row_count;
    return v_released = 1;
end;
$$;

comment on function sluice.release(text, bigint, integer, integer) is
    'Release a claimed message, visible after delay seconds; false if the claim (msg_id with its read_ct) is stale.';
revoke execute on function sluice.release(text, bigint, integer, integer) from public;
grant execute on function sluice.release(text, bigint, integer, integer) to sluice_admin, sluice_reader;

create or replace function sluice.release(
    queue_name text, msg_ids bigint[], read_cts integer[], delay integer default 0
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute sluice._settle_sql(
        queue_name, msg_ids, read_cts,
        'settled as (
            update pgmq.%1$I as queued
            set vt = $3, last_read_at = case when $4 > 0 then null else queued.last_read_at end
            where queued.msg_id = any (array(select current.msg_id from current))
            returning queued.msg_id
        )'
    )
    using msg_ids, read_cts, clock_timestamp() + make_interval(secs => delay), delay;
end;
$$;

comment on function sluice.release(text, bigint[], integer[], integer) is
    'Release claimed messages, visible after delay seconds; returns for each claim, in order: done, stale (claimed again since) or gone (not in the queue).';
revoke execute on function sluice.release(text, bigint[], integer[], integer) from public;
grant execute on function sluice.release(text, bigint[], integer[], integer) to sluice_admin, sluice_reader;
