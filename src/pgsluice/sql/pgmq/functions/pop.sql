create or replace function pgmq.pop(queue_name text, qty integer default 1)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    return query execute format(
        $query$
        with claimed as materialized (
            select queued.msg_id
            from pgmq.%1$I as queued
            where queued.vt <= $1
            order by queued.msg_id
            limit $2
            for update skip locked
        ),
        popped as (
            delete from pgmq.%1$I as queued
            using claimed
            where queued.msg_id = claimed.msg_id
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        select * from popped order by popped.msg_id
        $query$,
        pgmq.format_table_name(queue_name, 'q')
    )
    using v_now, qty;
end;
$$;

comment on function pgmq.pop(text, integer) is
    'Take up to qty visible messages, lowest msg_id first, and delete them at once: at most once, if the caller then fails.';
revoke execute on function pgmq.pop(text, integer) from public;
grant execute on function pgmq.pop(text, integer) to sluice_admin, sluice_reader;
