/*
 * The last step of begin_attempts, fail and release. note is the record for the claim: begun, failed, released; or dead:
 * the message is dead-lettered; null: none. visible_at: when the message becomes visible; null: unchanged.
 *
 * A message is named once or twice by the same claim; the first counts.
 *
 * Calls: pgmq.format_table_name. Writes: the queue, sluice.attempt, sluice.dead_letter; their rows are locked.
 */
create or replace function sluice._settle_tried(queue_name text, tried sluice.tried_message[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_dead bigint[] := array(select t.msg_id from unnest(tried) as t where t.note = 'dead');
    v_given_back bigint[] := array(select t.msg_id from unnest(tried) as t where t.visible_at is not null);
begin
    if v_dead <> '{}' then
        -- One statement, so that a message is always either in the queue or in the dead-letter table.
        execute format(
            'with buried as (
                delete from pgmq.%I as queued
                where queued.msg_id = any ($1)
                returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.message, queued.headers
            ),
            verdict as (
                select distinct on (t.msg_id) t.* from unnest($2) as t where t.note = ''dead'' order by t.msg_id, t.position
            )
            insert into sluice.dead_letter_message (
                queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, headers,
                reason, error, attempts, first_failed_at, error_type, trace, worker
            )
            select $3, buried.msg_id, buried.read_ct, buried.enqueued_at, buried.last_read_at, buried.message, buried.headers,
                verdict.reason, verdict.error, verdict.attempts, verdict.first_failed_at, verdict.error_type, verdict.trace,
                verdict.worker
            from buried
            join verdict on verdict.msg_id = buried.msg_id
            order by buried.msg_id',
            pgmq.format_table_name(queue_name, 'q')
        )
        using v_dead, tried, queue_name;

        delete from sluice.attempt as noted
        where noted.queue_name = lower(_settle_tried.queue_name) and noted.msg_id = any (v_dead);
    end if;

    if v_given_back <> '{}' then
        execute format(
            'update pgmq.%I as queued
             set vt = t.visible_at,
                 -- It waits unclaimed, see sluice.release. An immediate redelivery waits for nothing.
                 last_read_at = case when t.visible_at <= $3 then queued.last_read_at end
             from unnest($2) as t
             where queued.msg_id = any ($1)
               and t.msg_id = queued.msg_id
               and t.visible_at is not null',
            pgmq.format_table_name(queue_name, 'q')
        )
        using v_given_back, tried, clock_timestamp();
    end if;

    insert into sluice.attempt as noted (
        queue_name, msg_id, enqueued_at, read_ct, claimed_at, state, attempts, first_failed_at, last_failed_at,
        error_type, error, trace, worker, check_at
    )
    select distinct on (t.msg_id)
        lower(_settle_tried.queue_name), t.msg_id, t.enqueued_at, t.read_ct, t.claimed_at, t.note, t.attempts,
        t.first_failed_at, t.last_failed_at, t.error_type, t.error, t.trace, t.worker, now() + interval '1 minute'
    from unnest(tried) as t
    where t.note <> 'dead'
    order by t.msg_id, t.position
    -- A conflicting row is that of this message, or of a deleted one.
    on conflict on constraint attempt_pkey do update
    set enqueued_at = excluded.enqueued_at,
        read_ct = excluded.read_ct,
        claimed_at = excluded.claimed_at,
        state = excluded.state,
        attempts = excluded.attempts,
        first_failed_at = excluded.first_failed_at,
        last_failed_at = excluded.last_failed_at,
        error_type = excluded.error_type,
        error = excluded.error,
        trace = excluded.trace,
        worker = excluded.worker;
end;
$$;

comment on function sluice._settle_tried(text, sluice.tried_message[]) is
    'Apply and record the outcomes of locked messages: dead-lettered, visible again, begun, failed or released.';
revoke execute on function sluice._settle_tried(text, sluice.tried_message[]) from public;
grant execute on function sluice._settle_tried(text, sluice.tried_message[]) to sluice_admin, sluice_reader;
