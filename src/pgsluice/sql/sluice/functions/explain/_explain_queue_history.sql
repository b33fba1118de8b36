-- Reads: the newest row of queue, archive and dead letters by index; up to 1,000 dead letters of the last day.
create or replace function sluice._explain_queue_history(i_queue_name text, i_may_read boolean)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_counted_max constant integer := 1000;
    v_sent_at timestamptz;
    v_sent bigint;
    v_archived_at timestamptz;
begin
    return query
        select m.created_at, format('Queue %s was created', i_queue_name), '{}'::jsonb from pgmq.meta as m where m.queue_name = i_queue_name;
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end,
            (select m.enqueued_at from pgmq.%1$I as m order by m.msg_id desc limit 1)
         from pgmq.%2$I as ids',
        pgmq.format_table_name(i_queue_name, 'q'), pgmq.format_table_name(i_queue_name, 'q') || '_msg_id_seq'
    )
    into v_sent, v_sent_at;
    if v_sent > 0 then
        return query values (
            v_sent_at,
            format('The last id used is %s%s', v_sent, case when v_sent_at is not null then '; the newest message in the queue was sent' end),
            jsonb_build_object('newest_msg_id', v_sent)
        );
    end if;
    execute format('select m.archived_at from pgmq.%I as m order by m.archived_at desc limit 1', pgmq.format_table_name(i_queue_name, 'a'))
    into v_archived_at;
    if v_archived_at is not null then
        return query values (v_archived_at, 'The last message was archived', '{}'::jsonb);
    end if;
    return query
        select max(d.dead_at),
            format(
                '%s%s dead-lettered in the last day, the last one%s',
                sluice._counted(count(*), 'message'), case when count(*) = v_counted_max then ' or more' end,
                ' with ' || nullif((array_agg(concat_ws(': ', d.error_type, case when i_may_read then d.error end) order by d.dead_at desc))[1], '')
            ),
            jsonb_build_object('dead', count(*), 'command', format('pgsluice dead-letters list %s', sluice._shell_word(i_queue_name)))
        from (
            select d.dead_at, d.error_type, d.error
            from sluice.dead_letter_message as d
            where lower(d.queue_name) = lower(i_queue_name) and d.dead_at > now() - interval '1 day'
            order by d.dead_at desc
            limit v_counted_max
        ) as d
        having count(*) > 0;
end;
$$;

comment on function sluice._explain_queue_history(text, boolean) is
    'Return what happened to a queue: created, last sent, last archived, dead-lettered.';
revoke execute on function sluice._explain_queue_history(text, boolean) from public;
grant execute on function sluice._explain_queue_history(text, boolean) to sluice_admin;
