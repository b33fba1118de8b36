create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt timestamptz)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'with changed as (
            update pgmq.%I
            set vt = $1
            where msg_id = $2
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        select * from changed order by changed.msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using vt, msg_id;
end;
$$;

comment on function pgmq.set_vt(text, bigint, timestamptz) is
    'Set when one message becomes visible; returns it if it is in the queue.';
revoke execute on function pgmq.set_vt(text, bigint, timestamptz) from public;
grant execute on function pgmq.set_vt(text, bigint, timestamptz) to sluice_admin, sluice_reader;

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt integer)
returns setof pgmq.message_record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.set_vt(queue_name, msg_id, clock_timestamp() + make_interval(secs => vt));
$$;

comment on function pgmq.set_vt(text, bigint, integer) is
    'Make one message visible vt seconds from now; returns it if it is in the queue.';
revoke execute on function pgmq.set_vt(text, bigint, integer) from public;
grant execute on function pgmq.set_vt(text, bigint, integer) to sluice_admin, sluice_reader;

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt timestamptz)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'with changed as (
            update pgmq.%I
            set vt = $1
            where msg_id = any ($2)
            returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
        )
        select * from changed order by changed.msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using vt, msg_ids;
end;
$$;

comment on function pgmq.set_vt(text, bigint[], timestamptz) is
    'Set when messages become visible; returns those that are in the queue, lowest msg_id first.';
revoke execute on function pgmq.set_vt(text, bigint[], timestamptz) from public;
grant execute on function pgmq.set_vt(text, bigint[], timestamptz) to sluice_admin, sluice_reader;

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt integer)
returns setof pgmq.message_record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.set_vt(queue_name, msg_ids, clock_timestamp() + make_interval(secs => vt));
$$;

comment on function pgmq.set_vt(text, bigint[], integer) is
    'Make messages visible vt seconds from now; returns those that are in the queue, lowest msg_id first.';
revoke execute on function pgmq.set_vt(text, bigint[], integer) from public;
grant execute on function pgmq.set_vt(text, bigint[], integer) to sluice_admin, sluice_reader;
