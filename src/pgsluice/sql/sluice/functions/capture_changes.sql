-- Runs for whoever writes to a captured table, with the rights of the owner: writers of that table need none on the
-- log. The settings make the same row the same text in every session.
create or replace function sluice.capture_changes()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set intervalstyle = 'iso_8601'
set bytea_output = 'hex'
as $$
declare
    v_txid xid8;
    v_queue record;
    v_rows text;
begin
    -- First the transaction's id, then the table, for the reason that pgq.insert_event_raw gives.
    v_txid := pg_current_xact_id();
    select q.queue_id, q.queue_cur_table, q.queue_event_seq
    into v_queue
    from pgq.queue as q
    where q.queue_name = tg_argv[0];
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = format('event log %L does not exist', tg_argv[0]),
            detail = format('Changes of %I.%I are captured into it.', tg_table_schema, tg_table_name),
            hint = format(
                'create it with pgq.create_queue(%L), or drop the triggers sluice_capture_… of the table', tg_argv[0]
            );
    end if;

    v_rows := case tg_op
        when 'INSERT' then
            'select ''c'' as op, null::json as before, row_to_json(n) as after, 1 as position from new_rows as n'
        when 'DELETE' then
            'select ''d'' as op, row_to_json(o) as before, null::json as after, 1 as position from old_rows as o'
        when 'TRUNCATE' then
            'select ''t'' as op, null::json as before, null::json as after, 1 as position'
        -- Both transition tables are filled together, row by row, and are read in that order: the n-th old row became
        -- the n-th new one. A key could not pair them, as it may be what changed.
        else
            'select ''u'' as op, o.content as before, n.content as after, n.position
             from (select row_to_json(r) as content, row_number() over () as position from old_rows as r) as o
             join (select row_to_json(r) as content, row_number() over () as position from new_rows as r) as n
                 using (position)'
    end;
    execute format(
        'insert into pgq.%I (ev_id, ev_time, ev_type, ev_data, ev_extra1)
         select nextval($1), now(), change.op,
             json_build_object(
                 ''op'', change.op, ''before'', change.before, ''after'', change.after,
                 ''source'', $2, ''ts_ms'', (extract(epoch from clock_timestamp()) * 1000)::bigint
             ),
             $3
         from (%s) as change
         order by change.position',
        format('event_%s_%s', v_queue.queue_id, v_queue.queue_cur_table),
        v_rows
    )
    using v_queue.queue_event_seq::regclass,
        json_build_object('schema', tg_table_schema, 'table', tg_table_name, 'txId', v_txid::text::bigint),
        format('%s.%s', tg_table_schema, tg_table_name);
    return null;
end;
$$;

comment on function sluice.capture_changes() is
    'Trigger of captured tables: append each changed row as {op, before, after, source, ts_ms} to the event log.';
revoke execute on function sluice.capture_changes() from public;
grant execute on function sluice.capture_changes() to pgq_admin, sluice_admin;
