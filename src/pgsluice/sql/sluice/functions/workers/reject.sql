create or replace function sluice.reject(
    queue_name text, msg_id bigint, read_ct integer, reason text, error text default null,
    enqueued_at timestamptz default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rejected integer;
begin
    -- One statement, so that a message is always either in the queue or in the dead-letter table. read_ct is the fencing
    -- token: a later claim has a higher one and keeps the message.
    execute format(
        'with dead as (
            delete from pgmq.%I
            where msg_id = $1 and read_ct = $2 and (enqueued_at = $6 or $6 is null)
            returning msg_id, read_ct, enqueued_at, last_read_at, message, headers
        )
        insert into sluice.dead_letter_message (
            queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, headers, reason, error,
            attempts, first_failed_at, worker
        )
        select $3, dead.msg_id, dead.read_ct, dead.enqueued_at, dead.last_read_at, dead.message, dead.headers, $4, $5,
            -- Includes this attempt if it is not recorded; null without a record.
            noted.attempts + (noted.read_ct <> dead.read_ct or noted.state = ''released'')::integer,
            noted.first_failed_at, noted.worker
        from dead
        left join sluice.attempt as noted
            on noted.queue_name = lower($3)
            and noted.msg_id = dead.msg_id
            and noted.enqueued_at = dead.enqueued_at',
        pgmq.format_table_name(queue_name, 'q')
    )
    using msg_id, read_ct, queue_name, reason, error, enqueued_at;
    get diagnostics v_rejected = row_count;
    return v_rejected = 1;
end;
$$;

comment on function sluice.reject(text, bigint, integer, text, text, timestamptz) is
    'Dead-letter a claimed message; false if the claim (msg_id with its read_ct) is stale, or the message has another enqueued_at than the given one.';
revoke execute on function sluice.reject(text, bigint, integer, text, text, timestamptz) from public;
grant execute on function sluice.reject(text, bigint, integer, text, text, timestamptz) to sluice_admin, sluice_reader;
