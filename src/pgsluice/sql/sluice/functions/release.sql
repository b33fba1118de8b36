create or replace function sluice.release(queue_name text, msg_id bigint, read_ct integer, delay integer default 0)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_released integer;
begin
    -- read_ct is the fence: whoever claimed the message since has a higher one, and keeps it hidden.
    execute format(
        'update pgmq.%I set vt = $1 where msg_id = $2 and read_ct = $3',
        pgmq.format_table_name(queue_name, 'q')
    )
    using clock_timestamp() + make_interval(secs => delay), msg_id, read_ct;
    get diagnostics v_released = row_count;
    return v_released = 1;
end;
$$;

comment on function sluice.release(text, bigint, integer, integer) is
    'Give a claimed message back, visible after delay seconds; false when the claim (msg_id with its read_ct) is no longer current.';
revoke execute on function sluice.release(text, bigint, integer, integer) from public;
grant execute on function sluice.release(text, bigint, integer, integer) to sluice_admin, sluice_reader;

create or replace function sluice.release(
    queue_name text, msg_ids bigint[], read_cts integer[], delay integer default 0
)
returns table (msg_id bigint, outcome text)
language sql
set search_path = pg_catalog, pg_temp
as $$
    -- To give a message back is to end its timeout, now or after the delay: the same change as to extend it.
    select * from sluice.extend(queue_name, msg_ids, read_cts, delay);
$$;

comment on function sluice.release(text, bigint[], integer[], integer) is
    'Give claimed messages back, visible after delay seconds; says of each claim, in their order: done, stale (claimed again since) or gone (not in the queue).';
revoke execute on function sluice.release(text, bigint[], integer[], integer) from public;
grant execute on function sluice.release(text, bigint[], integer[], integer) to sluice_admin, sluice_reader;
