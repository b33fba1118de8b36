/*
 * Runs one step of a replay. Call it, and commit, until it is finished.
 *
 * Calls: sluice._replay_sql, sluice._filter_sql. Reads: the archive, in the order of its primary key. Writes: the
 * target queue, sluice.replay.
 */
create or replace function sluice.continue_replay(replay_id bigint, qty integer default 1000)
returns table (replayed bigint, replayed_in_all bigint, finished boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_replay sluice.replay;
    v_after_msg_id bigint;
begin
    if qty is null or qty < 1 then
        raise exception using
            errcode = '22023',
            message = format('qty is %s', coalesce(qty::text, 'null')),
            hint = 'send at least one message in a step';
    end if;
    -- Concurrent steps of one replay run one after the other. A step and its record are one transaction: no message is
    -- sent by both, and a step undone by a crash is repeated by the next.
    select r.* into v_replay from sluice.replay as r where r.replay_id = continue_replay.replay_id for update;
    if not found then
        raise exception using
            errcode = 'P0002',
            message = format('replay %s does not exist', replay_id),
            hint = 'list the replays of the queue; they are dropped with it';
    end if;
    if v_replay.finished_at is not null then
        return query select 0::bigint, v_replay.replayed, true;
        return;
    end if;

    execute format(
        '%s select count(*), max(sent.archived_msg_id) from sent',
        sluice._replay_sql(
            pgmq.format_table_name(v_replay.queue_name::text, 'a'),
            pgmq.format_table_name(v_replay.target_queue_name::text, 'q'),
            format(
                '($6 is null or m.msg_id > $6) and m.msg_id <= $7 and %s order by m.msg_id limit $8',
                sluice._filter_sql('archived_at'::text, null::text, false)
            )
        )
    )
    using v_replay.conditional, v_replay.conditional_headers, v_replay.since, v_replay.until, v_replay.queue_name,
        v_replay.after_msg_id, v_replay.up_to_msg_id, qty
    into replayed, v_after_msg_id;
    update sluice.replay as r
    set after_msg_id = coalesce(v_after_msg_id, r.after_msg_id),
        replayed = r.replayed + continue_replay.replayed,
        finished_at = case when continue_replay.replayed < qty then clock_timestamp() end
    where r.replay_id = continue_replay.replay_id
    returning r.replayed, r.finished_at is not null
    into replayed_in_all, finished;
    return next;
end;
$$;

comment on function sluice.continue_replay(bigint, integer) is
    'Send the next messages of a replay, at most qty, lowest msg_id first; returns their number, the total, and true if the replay is finished.';
revoke execute on function sluice.continue_replay(bigint, integer) from public;
grant execute on function sluice.continue_replay(bigint, integer) to sluice_admin;
