-- Calls: pgmq.format_table_name. Reads: the queue's table.
create or replace function sluice._missed_outcome(queue_name text, msg_id bigint, enqueued_at timestamptz)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_queued boolean;
begin
    execute format(
        'select exists (
            select
            from pgmq.%I as queued
            where queued.msg_id = $1
              and (queued.enqueued_at = $2 or $2 is null)
        )',
        pgmq.format_table_name(queue_name, 'q')
    )
    using msg_id, enqueued_at
    into v_is_queued;
    return case when v_is_queued then 'stale' else 'gone' end;
end;
$$;

comment on function sluice._missed_outcome(text, bigint, timestamptz) is
    'Return the outcome of a claim that is not current: stale if the message is in the queue, else gone.';
revoke execute on function sluice._missed_outcome(text, bigint, timestamptz) from public;
grant execute on function sluice._missed_outcome(text, bigint, timestamptz) to sluice_admin, sluice_reader;
