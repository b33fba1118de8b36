/*
 * The places of a queue's messages: the queue, its archive and its dead letters. A statement that reads several of them, joined by
 * union all, has one snapshot: a message being moved is found once. The state of a message is decided here, so functions that list
 * messages agree; pgmq._count counts by the same rule in its own conditions, which read no more columns than it needs.
 *
 * The source ends with a condition, so that "and" adds another. Without contents the columns are those that sluice_monitor may read.
 */
create or replace function sluice._stored_places(queue_name text, relation text, with_contents boolean)
returns table (place text, columns text, source text)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if relation is null or relation not in ('queue', 'archive', 'dead letters', 'all') then
        raise exception using
            errcode = '22023',
            message = format('%L is not a place of messages', relation),
            hint = 'use queue, archive, dead letters or all';
    end if;
    return query
        select p.place,
            format(
                'm.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, %s as vt, %s as archived_at, %s as state, %s',
                case p.place when 'dead letters' then 'null::timestamptz' else 'm.vt' end,
                case when p.place = 'archive' and with_contents then 'm.archived_at' else 'null::timestamptz' end,
                p.state,
                case when with_contents then 'm.message, m.headers' else 'null::jsonb as message, null::jsonb as headers' end
            ),
            p.source
        from (values
            (
                'queue',
                $state$case
                    when m.vt <= clock_timestamp() then 'visible'
                    when m.last_read_at is not null then 'in flight'
                    when m.read_ct > 0 then 'retrying'
                    else 'delayed'
                end$state$,
                format('pgmq.%I as m where true', pgmq.format_table_name(queue_name, 'q'))
            ),
            ('archive', '''archived''', format('pgmq.%I as m where true', pgmq.format_table_name(queue_name, 'a'))),
            ('dead letters', '''dead''', format('sluice.dead_letter_message as m where lower(m.queue_name) = lower(%L)', queue_name))
        ) as p (place, state, source)
        where _stored_places.relation in (p.place, 'all');
end;
$$;

comment on function sluice._stored_places(text, text, boolean) is
    'Return where messages of a queue are (relation queue, archive, dead letters or all): the columns of sluice.stored_message for m, and the source of its rows with a condition.';
revoke execute on function sluice._stored_places(text, text, boolean) from public;
grant execute on function sluice._stored_places(text, text, boolean) to sluice_admin, sluice_monitor, sluice_reader;
