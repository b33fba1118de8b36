create or replace function sluice.archive(
    queue_name text, msg_id bigint, read_ct integer, enqueued_at timestamptz default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_archived integer;
    v_settler constant text := pgmq._settler(queue_name);
    v_is_settled boolean;
begin
    -- read_ct is the fencing token: a later claim has a higher one, and keeps the message. A message of a queue that was
    -- created again has another enqueued_at.
    if v_settler is not null and read_ct is not null then
        execute format('select pgmq.%I($1, $2, $3, false)', v_settler)
        using msg_id, read_ct, enqueued_at
        into v_is_settled;
        return v_is_settled;
    end if;
    execute format(
        'with moved as (
            delete from pgmq.%I
            where msg_id = $1 and read_ct = $2 and (enqueued_at = $3 or $3 is null)
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        insert into pgmq.%I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
        select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        from moved',
        pgmq.format_table_name(queue_name, 'q'),
        pgmq.format_table_name(queue_name, 'a')
    )
    using msg_id, read_ct, enqueued_at;
    get diagnostics v_archived = row_count;
    return v_archived = 1;
end;
$$;

comment on function sluice.archive(text, bigint, integer, timestamptz) is
    'Move a claimed message to the archive; false if the claim (msg_id with its read_ct) is stale, or the message has another enqueued_at than the given one.';
revoke execute on function sluice.archive(text, bigint, integer, timestamptz) from public;
grant execute on function sluice.archive(text, bigint, integer, timestamptz) to sluice_admin, sluice_reader;

create or replace function sluice.archive(
    queue_name text, msg_ids bigint[], read_cts integer[], enqueued_ats timestamptz[] default null
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(msg_ids) = 1 and cardinality(read_cts) = 1 and msg_ids[1] is not null and read_cts[1] is not null
        and (enqueued_ats is null or cardinality(enqueued_ats) = 1 and enqueued_ats[1] is not null)
    then
        -- A single claim cannot deadlock with others in another order. Planning the query for many takes longer than
        -- the rest.
        msg_id := msg_ids[1];
        outcome := case
            when sluice.archive(queue_name, msg_ids[1], read_cts[1], enqueued_ats[1]) then 'done'
            else sluice._missed_outcome(queue_name, msg_ids[1], enqueued_ats[1])
        end;
        return next;
        return;
    end if;
    return query execute sluice._settle_sql(
        queue_name, msg_ids, read_cts, enqueued_ats,
        'moved as (
            delete from pgmq.%1$I as queued
            where queued.msg_id = any (array(select current.msg_id from current))
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        ),
        settled as (
            insert into pgmq.%2$I as archived (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt,
                moved.message, moved.headers
            from moved
            returning archived.msg_id
        )'
    )
    using msg_ids, read_cts, enqueued_ats;
end;
$$;

comment on function sluice.archive(text, bigint[], integer[], timestamptz[]) is
    'Move claimed messages to the archive; returns for each claim, in order: done, stale (claimed again since) or gone (not in the queue, or its message has another enqueued_at than the given one).';
revoke execute on function sluice.archive(text, bigint[], integer[], timestamptz[]) from public;
grant execute on function sluice.archive(text, bigint[], integer[], timestamptz[]) to sluice_admin, sluice_reader;
