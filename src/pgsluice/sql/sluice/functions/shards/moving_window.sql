-- A change of the directory reads each queue from its end: of a key with an order, workers continue from its head meanwhile.
--
-- Reads: the queue's table, at most qty rows of it.
create or replace function sluice.moving_window(queue_name text, before bigint, qty integer)
returns table (first_msg_id bigint, keys text[])
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select min(w.msg_id), coalesce(array_agg(distinct w.key) filter (where w.key is not null), ''{}'')
         from (
            select q.msg_id, q.headers ->> ''x-pgmq-group'' as key
            from pgmq.%I as q
            where $1 is null or q.msg_id < $1
            order by q.msg_id desc
            limit $2
         ) as w',
        pgmq.format_table_name(queue_name, 'q')
    )
    using before, qty;
end;
$$;

comment on function sluice.moving_window(text, bigint, integer) is
    'Return the lowest msg_id and the keys of the last qty messages of a queue, or of those below a msg_id; null: there are none.';
revoke execute on function sluice.moving_window(text, bigint, integer) from public;
grant execute on function sluice.moving_window(text, bigint, integer) to sluice_admin;
