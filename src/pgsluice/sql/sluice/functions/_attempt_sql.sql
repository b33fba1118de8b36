/*
 * The heart of sluice.begin_attempts, fail and hand_back: what is known of messages, a judgement on each, and what follows from
 * it. README.md, "Retries of work queues", tells the rule that it counts by.
 *
 * $1 to $3 are the claims, in their order: msg_id, outcome of the lock (only those that are done are judged) and what to return
 * as their attempt otherwise. $4 is the queue's name, $5 the most attempts, $6 the worker; the judgement may have more.
 *
 * The judgement is a query of message, one row for each:
 *   msg_id, outcome, attempts  what to return, and to note; dead: it moves to the dead letters
 *   note                       the state to note of this claim; null: nothing
 *   visible_at                 when it is to be visible; null: as it is
 *   reason, error_type, error, trace, worker, first_failed_at, last_failed_at
 *
 * message has the fields of the queue and, where noted, those of sluice.attempt; and
 *   said     the state that is noted of this very claim, if anything is
 *   counted  how many claims before this one count
 *
 * All of it is one statement: a message is in the queue or among the dead letters, and noted accordingly.
 */
create or replace function sluice._attempt_sql(queue_name text, judgement text, result text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $statement$with claim as materialized (
            select *
            from unnest($1::bigint[], $2::text[], $3::integer[]) with ordinality as c (msg_id, outcome, attempt, position)
        ),
        message as materialized (
            select queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at,
                noted.state, noted.claimed_at, noted.first_failed_at, noted.last_failed_at,
                noted.error_type, noted.error, noted.trace, noted.worker,
                case when this.is_noted then noted.state end as said,
                case
                    -- Of the first claim nobody notes that it begins; unless it is the only one.
                    when noted.msg_id is null then (queued.read_ct > 1 and $5 > 1)::integer
                    when this.is_noted and noted.state <> 'handed back' then noted.attempts - 1
                    else noted.attempts
                end as counted
            from pgmq.%1$I as queued
            left join sluice.attempt as noted
                on noted.queue_name = lower($4)
                and noted.msg_id = queued.msg_id
                and noted.enqueued_at = queued.enqueued_at
            cross join lateral (
                -- A message that was given back to wait has no last_read_at, but still the read_ct of its last claim.
                select noted.read_ct = queued.read_ct
                    and coalesce(queued.last_read_at = noted.claimed_at, queued.last_read_at is null) as is_noted
            ) as this
            where queued.msg_id = any (array(select claim.msg_id from claim where claim.outcome = 'done'))
        ),
        judged as materialized (
            %2$s
        ),
        buried as (
            delete from pgmq.%1$I as queued
            where queued.msg_id = any (array(select judged.msg_id from judged where judged.outcome = 'dead'))
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.message, queued.headers
        ),
        letters as (
            insert into sluice.dead_letter (
                queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, headers,
                reason, error, attempts, first_failed_at, error_type, trace, worker
            )
            select $4, buried.msg_id, buried.read_ct, buried.enqueued_at, buried.last_read_at, buried.message, buried.headers,
                judged.reason, judged.error, judged.attempts, judged.first_failed_at, judged.error_type, judged.trace,
                judged.worker
            from buried
            join judged on judged.msg_id = buried.msg_id
            order by buried.msg_id
        ),
        forgotten as (
            delete from sluice.attempt as noted
            where noted.queue_name = lower($4)
              and noted.msg_id = any (array(select buried.msg_id from buried))
        ),
        given_back as (
            update pgmq.%1$I as queued
            set vt = judged.visible_at,
                -- It waits, and is with nobody: sluice.release says why. What comes again at once waits for nothing.
                last_read_at = case when judged.visible_at <= clock_timestamp() then queued.last_read_at end
            from judged
            where queued.msg_id = any (array(select judged.msg_id from judged where judged.visible_at is not null))
              and queued.msg_id = judged.msg_id
        ),
        noted as (
            insert into sluice.attempt as a (
                queue_name, msg_id, enqueued_at, read_ct, claimed_at, state, attempts, first_failed_at, last_failed_at,
                error_type, error, trace, worker, check_at
            )
            select lower($4), message.msg_id, message.enqueued_at, message.read_ct, message.last_read_at, judged.note,
                judged.attempts, judged.first_failed_at, judged.last_failed_at,
                judged.error_type, judged.error, judged.trace, judged.worker, now() + interval '1 minute'
            from judged
            join message on message.msg_id = judged.msg_id
            where judged.note is not null
            -- What is in the way is of this message, or of one that is gone.
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
                worker = excluded.worker
        )
        select %3$s
        from claim
        left join judged on claim.outcome = 'done' and judged.msg_id = claim.msg_id
        order by claim.position$statement$,
        pgmq.format_table_name(queue_name, 'q'), judgement, result
    );
$$;

comment on function sluice._attempt_sql(text, text, text) is
    'The statement that judges messages by what is noted of their attempts, and does and notes what follows.';
revoke execute on function sluice._attempt_sql(text, text, text) from public;
grant execute on function sluice._attempt_sql(text, text, text) to sluice_admin, sluice_reader;
