/*
 * Said of claims before their handlers start, and committed: so a message that kills its process is dead after as many starts as
 * it may have attempts. The first claim of a message need not be said (README.md).
 *
 * Calls: sluice.lock_messages, sluice._attempt_sql, sluice._retry_settings. Writes: sluice.attempt; what is dead: the queue,
 * sluice.dead_letter.
 */
create or replace function sluice.begin_attempts(
    queue_name text, msg_ids bigint[], read_cts integer[], worker text, max_attempts integer default null
)
returns table (msg_id bigint, attempt integer, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_attempts_max integer := (
        sluice._retry_settings(queue_name, jsonb_build_object('max_attempts', begin_attempts.max_attempts))
    ).max_attempts;
    v_outcomes text[];
begin
    v_outcomes := array(
        select case l.outcome when 'done' then 'done' else 'lost' end
        from sluice.lock_messages(queue_name, msg_ids, read_cts) with ordinality as l (msg_id, outcome, position)
        order by l.position
    );
    return query execute sluice._attempt_sql(
        queue_name,
        -- Begun and not a word since: the process has died, or its claim lapsed while it ran.
        'select message.msg_id, verdict.outcome,
            case verdict.outcome
                when ''begun'' then message.counted + 1
                when ''dead'' then message.counted
            end as attempts,
            case when verdict.outcome = ''begun'' and message.said is null then ''begun'' end as note,
            null::timestamptz as visible_at,
            case
                when message.state = ''begun'' then ''delivered too often without an answer''
                else ''too many attempts''
            end as reason,
            message.error_type, message.error, message.trace,
            case when verdict.outcome = ''dead'' then message.worker else $6 end as worker,
            coalesce(message.first_failed_at, unanswered.at) as first_failed_at,
            coalesce(unanswered.at, message.last_failed_at) as last_failed_at
        from message
        cross join lateral (
            select case
                when message.said = ''begun'' then ''begun''
                when message.said is not null then ''lost''
                when message.counted < $5 then ''begun''
                else ''dead''
            end
        ) as verdict (outcome)
        cross join lateral (
            select case when message.state = ''begun'' then message.claimed_at end
        ) as unanswered (at)',
        'claim.msg_id, judged.attempts, coalesce(judged.outcome, claim.outcome)'
    )
    using msg_ids, v_outcomes, null::integer[], queue_name, v_attempts_max, worker;
end;
$$;

comment on function sluice.begin_attempts(text, bigint[], integer[], text, integer) is
    'Note that handlers of claimed messages start; says of each claim, in their order: begun and the number of the attempt, dead (all attempts were begun and nobody answered: now a dead letter) or lost (the claim is over). Said again of the same claim it counts once.';
revoke execute on function sluice.begin_attempts(text, bigint[], integer[], text, integer) from public;
grant execute on function sluice.begin_attempts(text, bigint[], integer[], text, integer) to sluice_admin, sluice_reader;
