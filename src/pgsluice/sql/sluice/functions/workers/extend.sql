-- An expired claim can still be extended until the message is claimed again: it was not delivered twice.
create or replace function sluice.extend(
    queue_name text, msg_id bigint, read_ct integer, vt integer, enqueued_at timestamptz default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_extended integer;
begin
    -- read_ct is the fencing token: a later claim has a higher one, and its own timeout.
    execute format(
        'update pgmq.%I set vt = $1 where msg_id = $2 and read_ct = $3 and (enqueued_at = $4 or $4 is null)',
        pgmq.format_table_name(queue_name, 'q')
    )
    using clock_timestamp() + make_interval(secs => vt), msg_id, read_ct, enqueued_at;
    get diagnostics v_extended = row_count;
    return v_extended = 1;
end;
$$;

comment on function sluice.extend(text, bigint, integer, integer, timestamptz) is
    'Hide a claimed message for vt seconds from now; false if the claim (msg_id with its read_ct) is stale, or the message has another enqueued_at than the given one.';
revoke execute on function sluice.extend(text, bigint, integer, integer, timestamptz) from public;
grant execute on function sluice.extend(text, bigint, integer, integer, timestamptz) to sluice_admin, sluice_reader;

create or replace function sluice.extend(
    queue_name text, msg_ids bigint[], read_cts integer[], vt integer, enqueued_ats timestamptz[] default null
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
            set vt = $4
            where queued.msg_id = any (array(select current.msg_id from current))
            returning queued.msg_id
        )'
    )
    using msg_ids, read_cts, enqueued_ats, clock_timestamp() + make_interval(secs => vt);
end;
$$;

comment on function sluice.extend(text, bigint[], integer[], integer, timestamptz[]) is
    'Hide claimed messages for vt seconds from now; returns for each claim, in order: done, stale (claimed again since) or gone (not in the queue, or its message has another enqueued_at than the given one).';
revoke execute on function sluice.extend(text, bigint[], integer[], integer, timestamptz[]) from public;
grant execute on function sluice.extend(text, bigint[], integer[], integer, timestamptz[]) to sluice_admin, sluice_reader;
