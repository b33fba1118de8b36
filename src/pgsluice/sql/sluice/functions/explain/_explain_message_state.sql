-- The first row has the state in its detail, as clients need it: see sluice._find_message.
create or replace function sluice._explain_message_state(i_queue_name text, i_found jsonb)
returns table (at timestamptz, fact text, detail jsonb)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select s.at, s.fact,
        jsonb_build_object('state', m.state, 'queue_name', i_queue_name, 'msg_id', m.msg_id, 'key', m.key, 'newest_msg_id', m.newest)
    from jsonb_to_record(i_found) as m (
        state text, msg_id bigint, newest bigint, key text, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz,
        vt timestamptz, archived_at timestamptz, dead_at timestamptz, attempt_state text
    )
    cross join lateral (
        values
            ('ready', greatest(m.vt, m.enqueued_at), case
                when m.read_ct = 0 then format('Message %s is in queue %s, ready to be claimed', m.msg_id, i_queue_name)
                when m.last_read_at is null then format('Message %s is in queue %s, ready to be claimed once more', m.msg_id, i_queue_name)
                else format('Message %s is in queue %s, ready to be redelivered: its lease expired', m.msg_id, i_queue_name)
            end),
            ('delayed', m.vt, format(
                'Message %s is in queue %s, %s', m.msg_id, i_queue_name,
                case when m.vt = 'infinity' then 'delayed without an end' else 'delayed; it becomes visible' end
            )),
            ('in flight', m.last_read_at, format('Message %s of queue %s is in flight: it was claimed', m.msg_id, i_queue_name)),
            ('retrying', m.vt, format('Message %s is in queue %s and waits for its retry', m.msg_id, i_queue_name)),
            ('released', m.vt, format(
                'Message %s is in queue %s, released with a delay%s', m.msg_id, i_queue_name,
                case when m.vt = 'infinity' then ' without an end' else '; it becomes visible' end
            )),
            ('archived', m.archived_at, format('Message %s of queue %s is finished and archived', m.msg_id, i_queue_name)),
            ('dead', m.dead_at, format('Message %s of queue %s is a dead letter', m.msg_id, i_queue_name)),
            ('gone', null, format(
                'Message %s is neither in queue %s nor in its archive nor among its dead letters; its id was used, the newest is %s',
                m.msg_id, i_queue_name, m.newest
            )),
            ('unknown', null, case
                when m.msg_id < 1 then format('Queue %s never had a message %s: ids start at 1', i_queue_name, m.msg_id)
                when m.newest = 0 then format('Queue %s never had a message', i_queue_name)
                else format('Queue %s never had a message %s: the newest is %s', i_queue_name, m.msg_id, m.newest)
            end)
    ) as s (state, at, fact)
    where s.state = m.state;
$$;

comment on function sluice._explain_message_state(text, jsonb) is
    'Return the sentence that names the place of a message.';
revoke execute on function sluice._explain_message_state(text, jsonb) from public;
grant execute on function sluice._explain_message_state(text, jsonb) to sluice_admin;
