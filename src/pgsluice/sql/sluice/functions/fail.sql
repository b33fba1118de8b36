/*
 * failures is a list of objects: msg_id and read_ct name the claim; reject: it is not to be tried again; delay: seconds until it
 * is, instead of the backoff; reason, error_type, error and trace are kept with it.
 *
 * Said again, because the reply was lost, it changes nothing and says what was done, as long as nobody has claimed the message
 * since, or redriven its dead letter.
 *
 * Calls: sluice.lock_messages, sluice._attempt_sql, sluice._retry_settings, sluice._backoff. Writes: the queue, sluice.attempt,
 * sluice.dead_letter.
 */
create or replace function sluice.fail(queue_name text, failures jsonb, worker text default null, policy jsonb default null)
returns table (msg_id bigint, outcome text, attempt integer)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.retry_policy := sluice._retry_settings(queue_name, policy);
    v_msg_ids bigint[];
    v_read_cts integer[];
    v_outcomes text[];
    v_attempts integer[];
begin
    select array_agg(f.msg_id order by f.position), array_agg(f.read_ct order by f.position)
    into v_msg_ids, v_read_cts
    from rows from (jsonb_to_recordset(failures) as (msg_id bigint, read_ct integer))
        with ordinality as f (msg_id, read_ct, position);

    select array_agg(coalesce(dead.outcome, l.outcome) order by l.position), array_agg(dead.attempts order by l.position)
    into v_outcomes, v_attempts
    from sluice.lock_messages(queue_name, v_msg_ids, v_read_cts) with ordinality as l (msg_id, outcome, position)
    left join lateral (
        select 'dead' as outcome, d.attempts
        from sluice.dead_letter as d
        where l.outcome = 'gone'
          and lower(d.queue_name) = lower(fail.queue_name)
          and d.msg_id = l.msg_id
          and d.read_ct = v_read_cts[l.position]
        order by d.dead_letter_id desc
        limit 1
    ) as dead on true;

    return query execute sluice._attempt_sql(
        queue_name,
        'select message.msg_id, verdict.outcome,
            case when verdict.outcome <> ''stale'' then message.counted + 1 end as attempts,
            case when verdict.outcome = ''retry'' and message.said is distinct from ''failed'' then ''failed'' end as note,
            case
                when verdict.outcome = ''retry'' and message.said is distinct from ''failed'' then clock_timestamp() + coalesce(
                    make_interval(secs => failure.delay),
                    sluice._backoff($8, $9, $10, $11, message.counted + 1)
                )
            end as visible_at,
            case when failure.reject then coalesce(failure.reason, ''rejected'') else ''too many attempts'' end as reason,
            failure.error_type,
            coalesce(failure.error, case when failure.reject is not true then failure.reason end) as error,
            failure.trace, $6 as worker,
            coalesce(message.first_failed_at, clock_timestamp()) as first_failed_at,
            clock_timestamp() as last_failed_at
        from message
        join (
            select distinct on (f.msg_id, f.read_ct) f.*
            from jsonb_to_recordset($7) as f (
                msg_id bigint, read_ct integer, delay double precision, reject boolean,
                reason text, error_type text, error text, trace text
            )
            order by f.msg_id, f.read_ct
        ) as failure on failure.msg_id = message.msg_id and failure.read_ct = message.read_ct
        cross join lateral (
            select case
                when message.said = ''handed back'' then ''stale''
                when message.said = ''failed'' then ''retry''
                when failure.reject or message.counted + 1 >= $5 then ''dead''
                else ''retry''
            end
        ) as verdict (outcome)',
        'claim.msg_id, coalesce(judged.outcome, claim.outcome), coalesce(judged.attempts, claim.attempt)'
    )
    using v_msg_ids, v_outcomes, v_attempts, queue_name, v_policy.max_attempts, worker,
        failures, v_policy.backoff, v_policy.backoff_base, v_policy.backoff_max, v_policy.backoff_jitter;
end;
$$;

comment on function sluice.fail(text, jsonb, text, jsonb) is
    'Settle claimed messages whose handlers failed; says of each, in their order: retry (visible again after the backoff or its delay) or dead (rejected, or its last attempt: a dead letter), with the number of the attempt; stale (claimed again or handed back since) or gone.';
revoke execute on function sluice.fail(text, jsonb, text, jsonb) from public;
grant execute on function sluice.fail(text, jsonb, text, jsonb) to sluice_admin, sluice_reader;
