create or replace function pgmq.archive(queue_name text, msg_id bigint)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_archived integer;
    v_settler constant text := pgmq._settler(queue_name);
    v_is_settled boolean;
begin
    if v_settler is not null then
        execute format('select pgmq.%I($1, null, null, false)', v_settler) using msg_id into v_is_settled;
        return v_is_settled;
    end if;
    execute format(
        'with moved as (
            delete from pgmq.%I
            where msg_id = $1
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        insert into pgmq.%I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
        select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        from moved',
        pgmq.format_table_name(queue_name, 'q'),
        pgmq.format_table_name(queue_name, 'a')
    )
    using msg_id;
    get diagnostics v_archived = row_count;
    return v_archived = 1;
end;
$$;

comment on function pgmq.archive(text, bigint) is
    'Move one message to the archive; false if it is not in the queue.';
revoke execute on function pgmq.archive(text, bigint) from public;
grant execute on function pgmq.archive(text, bigint) to sluice_admin, sluice_reader;

create or replace function pgmq.archive(queue_name text, msg_ids bigint[])
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'with moved as (
            delete from pgmq.%I
            where msg_id = any ($1)
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        ),
        archived as (
            insert into pgmq.%I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
            from moved
            returning msg_id
        )
        select archived.msg_id from archived order by archived.msg_id',
        pgmq.format_table_name(queue_name, 'q'),
        pgmq.format_table_name(queue_name, 'a')
    )
    using msg_ids;
end;
$$;

comment on function pgmq.archive(text, bigint[]) is
    'Move messages to the archive; returns the msg_ids that were in the queue, in ascending order.';
revoke execute on function pgmq.archive(text, bigint[]) from public;
grant execute on function pgmq.archive(text, bigint[]) to sluice_admin, sluice_reader;
