/*
 * Sends rows of stages as messages, in the order of the stages and of the rows in each: one statement per stage and queue, so
 * statement triggers fire once each. Rows with deduplication keys are sent by sluice.send_batch in parts.
 *
 * Without a delay a message is visible from now(), which makes it ready instead of deferred (../../pgmq/README.md).
 *
 * Calls: sluice._stages, sluice.send_batch. Writes: the queues' tables.
 */
create or replace function sluice.send_staged(queue_name text, stages bigint[], row_counts bigint[])
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set synchronize_seqscans = off
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_messages_max constant integer := 1000; -- per part
    v_messages record;
    v_stage record;
    v_queue text;
    v_where text;
    v_vt text;
    v_headers text;
    v_sent bigint;
    v_part bigint;
    v_sent_all bigint := 0;
begin
    for v_stage in
        select * from sluice._stages(stages, row_counts, 'queue'::text, queue_name)
    loop
        if not 'message' = any (v_stage.columns) then
            raise exception using
                errcode = '22023',
                message = format('stage %s has no column ''message''', v_stage.stage_id),
                hint = 'insert events with sluice.insert_staged';
        end if;
        v_vt := case
            when 'vt' = any (v_stage.columns) then 'coalesce(s.vt, now())'
            when 'delay' = any (v_stage.columns) then
                'case when s.delay > 0 then $1 + make_interval(secs => s.delay) else now() + make_interval(secs => coalesce(s.delay, 0)) end'
            else 'now()'
        end;
        v_headers := case when 'headers' = any (v_stage.columns) then 's.headers' else 'null::jsonb' end;
        if 'key' = any (v_stage.columns) then
            v_headers := format('sluice._keyed_headers(%s, s.key)', v_headers);
        end if;

        v_where := case when queue_name is null then 'where s.queue = $2' else '' end;
        v_sent := 0;
        foreach v_queue in array v_stage.targets
        loop
            if 'deduplication_key' = any (v_stage.columns) then
                for v_messages in
                    execute format(
                        'select r.vt,
                            array_agg(r.message order by r.number) as messages,
                            array_agg(r.headers order by r.number) as headers,
                            array_agg(r.deduplication_key order by r.number) as keys
                        from (
                            select %s as vt, s.message, %s as headers, s.deduplication_key, row_number() over () as number
                            from sluice.stage_%s as s
                            %s
                        ) as r
                        group by r.vt, (r.number - 1) / $3
                        order by min(r.number)',
                        v_vt, v_headers, v_stage.stage_id, v_where
                    )
                    using v_now, v_queue, v_messages_max
                loop
                    perform sluice.send_batch(v_queue, v_messages.messages, v_messages.keys, v_messages.headers, v_messages.vt);
                    v_sent := v_sent + cardinality(v_messages.messages);
                end loop;
                continue;
            end if;
            execute format(
                'insert into pgmq.%I (vt, message, headers) select %s, s.message, %s from sluice.stage_%s as s %s',
                pgmq.format_table_name(v_queue, 'q'), v_vt, v_headers, v_stage.stage_id, v_where
            )
            using v_now, v_queue;
            get diagnostics v_part = row_count;
            v_sent := v_sent + v_part;
        end loop;
        if v_sent <> v_stage.row_count then
            perform sluice._refuse_stage(
                v_stage.stage_id, format('It has %s rows and not %s.', v_sent, v_stage.row_count)
            );
        end if;
        v_sent_all := v_sent_all + v_sent;
    end loop;
    return v_sent_all;
end;
$$;

comment on function sluice.send_staged(text, bigint[], bigint[]) is
    'Send the rows of stages as messages, to the queue, or with null to the queue that each row names; raises an error if a stage does not have the given row count. Returns their number.';
revoke execute on function sluice.send_staged(text, bigint[], bigint[]) from public;
grant execute on function sluice.send_staged(text, bigint[], bigint[]) to sluice_admin, sluice_writer;
