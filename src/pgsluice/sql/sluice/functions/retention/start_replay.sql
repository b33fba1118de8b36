/*
 * Records a replay. It terminates: a message that it sends, and that is archived again while it runs, has a higher
 * msg_id than every message in the archive at its start.
 *
 * Calls: sluice._registered_name. Reads: the highest msg_id of the archive. Writes: sluice.replay.
 */
create or replace function sluice.start_replay(
    queue_name text,
    target_queue_name text default null,
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := sluice._registered_name(queue_name);
    v_target text := sluice._registered_name(coalesce(target_queue_name, queue_name));
    v_up_to_msg_id bigint;
    v_replay_id bigint;
begin
    execute format('select max(m.msg_id) from pgmq.%I as m', pgmq.format_table_name(v_queue_name, 'a'))
    into v_up_to_msg_id;
    insert into sluice.replay
        (queue_name, target_queue_name, conditional, conditional_headers, since, until, up_to_msg_id)
    values (
        v_queue_name, v_target, start_replay.conditional, start_replay.conditional_headers, start_replay.since,
        least(start_replay.until, clock_timestamp()), v_up_to_msg_id
    )
    returning replay_id into v_replay_id;
    perform sluice.note_action(
        'start_replay'::text, v_queue_name,
        jsonb_build_object(
            'replay_id', v_replay_id, 'target_queue_name', target_queue_name, 'conditional', nullif(conditional, '{}'),
            'conditional_headers', nullif(conditional_headers, '{}'), 'since', since, 'until', until
        ),
        null::bigint, null::text
    );
    return v_replay_id;
end;
$$;

comment on function sluice.start_replay(text, text, jsonb, jsonb, timestamptz, timestamptz) is
    'Start a replay of the archived messages that a filter matches; returns the id for continue_replay, which sends them.';
revoke execute on function sluice.start_replay(text, text, jsonb, jsonb, timestamptz, timestamptz) from public;
grant execute on function sluice.start_replay(text, text, jsonb, jsonb, timestamptz, timestamptz) to sluice_admin;
