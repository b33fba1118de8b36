create or replace function sluice.reject(
    queue_name text, msg_id bigint, read_ct integer, reason text, error text default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rejected integer;
begin
    -- In one statement: a message is in the queue or among the dead letters, never in both and never in neither.
    -- read_ct is the fence: whoever claimed the message since has a higher one and keeps it.
    execute format(
        'with dead as (
            delete from pgmq.%I
            where msg_id = $1 and read_ct = $2
            returning msg_id, read_ct, enqueued_at, last_read_at, message, headers
        )
        insert into sluice.dead_letter
            (queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, headers, reason, error)
        select $3, msg_id, read_ct, enqueued_at, last_read_at, message, headers, $4, $5
        from dead',
        pgmq.format_table_name(queue_name, 'q')
    )
    using msg_id, read_ct, queue_name, reason, error;
    get diagnostics v_rejected = row_count;
    return v_rejected = 1;
end;
$$;

comment on function sluice.reject(text, bigint, integer, text, text) is
    'Move a claimed message to the dead letters; false when the claim (msg_id with its read_ct) is no longer current.';
revoke execute on function sluice.reject(text, bigint, integer, text, text) from public;
grant execute on function sluice.reject(text, bigint, integer, text, text) to sluice_admin, sluice_reader;
