create or replace function pgmq.pop(queue_name text, qty integer default 1)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_queue text := pgmq.format_table_name(queue_name, 'q');
begin
    return query execute format(
        'with claimed as materialized (%1$s),
        popped as (
            delete from pgmq.%2$I as queued
            where queued.msg_id = any (array(select claimed.msg_id from claimed))
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        select * from popped order by popped.msg_id',
        pgmq._claim_sql(v_queue, v_now), v_queue
    )
    using v_now, qty, null::jsonb;
end;
$$;

comment on function pgmq.pop(text, integer) is
    'Take up to qty visible messages, lowest msg_id first, and delete them at once: at most once, if the caller then fails.';
revoke execute on function pgmq.pop(text, integer) from public;
grant execute on function pgmq.pop(text, integer) to sluice_admin, sluice_reader;
