/*
 * What begin_attempts, fail and hand_back begin with: the messages of claims, locked, and what is noted of them, in the order of
 * the claims. README.md, "Retries of work queues", tells the rule that attempts are counted by.
 *
 * outcome is done for a claim that is current, else stale or gone. is_noted: what is noted is about this very claim. attempts:
 * how many count before it.
 *
 * The rows are locked in the order of msg_id, as in _settle_sql. What is noted is read by a statement of its own, whose snapshot
 * is taken when the locks are there: nobody else changes it then.
 *
 * Calls: pgmq.format_table_name, sluice._require_claims. Reads: the queue, sluice.attempt.
 */
create or replace function sluice._tried_messages(
    queue_name text, msg_ids bigint[], read_cts integer[], attempts_max integer
)
returns setof sluice.tried_message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_msg_ids bigint[];
    v_read_cts integer[];
    v_enqueued_ats timestamptz[];
    v_claimed_ats timestamptz[];
begin
    perform sluice._require_claims(msg_ids, read_cts);
    execute format(
        'select array_agg(held.msg_id), array_agg(held.read_ct), array_agg(held.enqueued_at), array_agg(held.last_read_at)
         from (
             select queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at
             from pgmq.%I as queued
             where queued.msg_id = any ($1)
             order by queued.msg_id
             for update
         ) as held',
        pgmq.format_table_name(queue_name, 'q')
    )
    using msg_ids
    into v_msg_ids, v_read_cts, v_enqueued_ats, v_claimed_ats;

    return query
    select claim.position, claim.msg_id, held.read_ct, held.enqueued_at, held.claimed_at,
        noted.state, noted.claimed_at, this.is_noted,
        case
            -- Of the first claim nobody notes that it begins; unless it is the only one.
            when noted.msg_id is null then (held.read_ct > 1 and attempts_max > 1)::integer
            when this.is_noted and noted.state <> 'handed back' then noted.attempts - 1
            else noted.attempts
        end,
        noted.first_failed_at, noted.last_failed_at, noted.error_type, noted.error, noted.trace, noted.worker,
        case
            when held.msg_id is null then 'gone'
            when held.read_ct is distinct from claim.read_ct then 'stale'
            else 'done'
        end,
        null::text, null::timestamptz, null::text
    from unnest(msg_ids, read_cts) with ordinality as claim (msg_id, read_ct, position)
    left join unnest(v_msg_ids, v_read_cts, v_enqueued_ats, v_claimed_ats)
        as held (msg_id, read_ct, enqueued_at, claimed_at) on held.msg_id = claim.msg_id
    left join sluice.attempt as noted
        on noted.queue_name = lower(_tried_messages.queue_name)
        and noted.msg_id = held.msg_id
        and noted.enqueued_at = held.enqueued_at
    cross join lateral (
        select coalesce(
            noted.read_ct = held.read_ct
            -- At the end of its range read_ct rises no more; a message that was given back has no time of its claim.
            and (held.read_ct < 2147483647 or held.claimed_at is null or held.claimed_at = noted.claimed_at),
            false
        )
    ) as this (is_noted)
    order by claim.position;
end;
$$;

comment on function sluice._tried_messages(text, bigint[], integer[], integer) is
    'Lock the messages of claims, and tell what is noted of their attempts.';
revoke execute on function sluice._tried_messages(text, bigint[], integer[], integer) from public;
grant execute on function sluice._tried_messages(text, bigint[], integer[], integer) to sluice_admin, sluice_reader;
