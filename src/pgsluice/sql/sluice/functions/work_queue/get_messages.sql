create or replace function sluice.get_messages(queue_name text, msg_ids bigint[])
returns setof sluice.stored_message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- One statement, one snapshot: a message being moved is found at its source or its destination.
    return query execute format(
        'select %s from pgmq.%I as m where m.msg_id = any ($1)
         union all
         select %s from pgmq.%I as m where m.msg_id = any ($1)
         union all
         select %s from sluice.dead_letter_message as m where lower(m.queue_name) = lower($2) and m.msg_id = any ($1)
         order by 1',
        sluice._stored_columns('queue'), pgmq.format_table_name(queue_name, 'q'),
        sluice._stored_columns('archive'), pgmq.format_table_name(queue_name, 'a'),
        sluice._stored_columns('dead letters')
    )
    using msg_ids, queue_name;
end;
$$;

comment on function sluice.get_messages(text, bigint[]) is
    'Return messages by msg_id from queue, archive and dead letters, lowest first, without reading them; state is visible, in flight, delayed, archived or dead.';
revoke execute on function sluice.get_messages(text, bigint[]) from public;
grant execute on function sluice.get_messages(text, bigint[]) to sluice_admin, sluice_reader;
