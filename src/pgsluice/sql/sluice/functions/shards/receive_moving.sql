/*
 * In the transaction of sluice.received_moving. The commit is durable, because the other database then removes the messages.
 *
 * A message keeps its times, so that its age and its delay stay, its reads, and its attempts; its msg_id is new.
 *
 * Calls: pgq._commit_durably. Writes: the tables of the queues, sluice.attempt, sluice.sink_commit.
 */
create or replace function sluice.receive_moving(from_shard text, messages jsonb)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_sink constant text := format('sluice.shard %s', from_shard);
    v_message jsonb;
    v_msg_id bigint;
begin
    perform pgq._commit_durably();
    for v_message in select m.value from jsonb_array_elements(messages) as m (value) loop
        execute format(
            'insert into pgmq.%I (read_ct, enqueued_at, last_read_at, vt, message, headers)
             select m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message::jsonb, m.headers || jsonb_build_object(
                ''x-pgmq-moved-from'', jsonb_build_object(''shard'', $2, ''queue'', m.queue_name, ''msg_id'', m.msg_id)
             )
             from jsonb_to_record($1) as m (
                queue_name text, msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz,
                message text, headers jsonb
             )
             returning msg_id',
            pgmq.format_table_name(v_message ->> 'queue_name', 'q')
        )
        into v_msg_id
        using v_message, from_shard;
        if jsonb_typeof(v_message -> 'attempt') = 'object' then
            insert into sluice.attempt
            select a.*
            from jsonb_populate_record(
                null::sluice.attempt, v_message -> 'attempt' || jsonb_build_object('msg_id', v_msg_id)
            ) as a;
        end if;
    end loop;
    insert into sluice.sink_commit as c (kind, key, version, detail)
    values ('sink', v_sink, 1, (select jsonb_agg(m.value -> 'moving_id') from jsonb_array_elements(messages) as m (value)))
    on conflict on constraint sink_commit_pkey do update
    set version = c.version + 1, detail = excluded.detail;
    return jsonb_array_length(messages);
end;
$$;

comment on function sluice.receive_moving(text, jsonb) is
    'Append messages of sluice.next_moving of another shard to their queues, with x-pgmq-moved-from in their headers, and note that they were received; returns their number.';
revoke execute on function sluice.receive_moving(text, jsonb) from public;
grant execute on function sluice.receive_moving(text, jsonb) to sluice_admin;
