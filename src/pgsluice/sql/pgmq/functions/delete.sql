create or replace function pgmq.delete(queue_name text, msg_id bigint)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_deleted integer;
    v_settler constant text := pgmq._settler(queue_name);
    v_is_settled boolean;
begin
    if v_settler is not null then
        execute format('select pgmq.%I($1, null, null, true)', v_settler) using msg_id into v_is_settled;
        return v_is_settled;
    end if;
    execute format('delete from pgmq.%I where msg_id = $1', pgmq.format_table_name(queue_name, 'q')) using msg_id;
    get diagnostics v_deleted = row_count;
    return v_deleted = 1;
end;
$$;

comment on function pgmq.delete(text, bigint) is
    'Delete one message permanently; false if it is not in the queue.';
revoke execute on function pgmq.delete(text, bigint) from public;
grant execute on function pgmq.delete(text, bigint) to sluice_admin, sluice_reader;

create or replace function pgmq.delete(queue_name text, msg_ids bigint[])
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'with deleted as (
            delete from pgmq.%I where msg_id = any ($1) returning msg_id
        )
        select deleted.msg_id from deleted order by deleted.msg_id',
        pgmq.format_table_name(queue_name, 'q')
    )
    using msg_ids;
end;
$$;

comment on function pgmq.delete(text, bigint[]) is
    'Delete messages permanently; returns the msg_ids that were in the queue, in ascending order.';
revoke execute on function pgmq.delete(text, bigint[]) from public;
grant execute on function pgmq.delete(text, bigint[]) to sluice_admin, sluice_reader;
