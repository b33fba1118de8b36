/*
 * The first step of begin_attempts, fail and release: lock the messages of claims and return their recorded attempts, in
 * the order of the claims. ../retries/README.md explains how attempts are counted.
 *
 * outcome is done for a current claim, else stale or gone, as in _settle_sql. is_noted: the record belongs to this very claim. attempts: the
 * number of earlier attempts that count.
 *
 * The rows are locked in the order of msg_id, as in _settle_sql. The records are read by a separate statement, whose snapshot
 * is taken after the locks, so that no other session changes them.
 *
 * Calls: pgmq.format_table_name, sluice._require_claims. Reads: the queue, sluice.attempt.
 */
create or replace function sluice._tried_messages(
    queue_name text, msg_ids bigint[], read_cts integer[], enqueued_ats timestamptz[], attempts_max integer
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
    perform sluice._require_claims(msg_ids, read_cts, enqueued_ats);
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
            -- The start of the first claim is not recorded, unless it is the only one.
            when noted.msg_id is null then (held.read_ct > 1 and attempts_max > 1)::integer
            when this.is_noted and noted.state <> 'released' then noted.attempts - 1
            else noted.attempts
        end,
        noted.first_failed_at, noted.last_failed_at, noted.error_type, noted.error, noted.trace, noted.worker,
        case
            when held.msg_id is null or claim.enqueued_at <> held.enqueued_at then 'gone'
            when held.read_ct is distinct from claim.read_ct then 'stale'
            else 'done'
        end,
        null::text, null::timestamptz, null::text
    from unnest(msg_ids, read_cts, enqueued_ats) with ordinality as claim (msg_id, read_ct, enqueued_at, position)
    left join unnest(v_msg_ids, v_read_cts, v_enqueued_ats, v_claimed_ats)
        as held (msg_id, read_ct, enqueued_at, claimed_at) on held.msg_id = claim.msg_id
    left join sluice.attempt as noted
        on noted.queue_name = lower(_tried_messages.queue_name)
        and noted.msg_id = held.msg_id
        and noted.enqueued_at = held.enqueued_at
    cross join lateral (
        select coalesce(
            noted.read_ct = held.read_ct
            -- At the end of its range read_ct no longer increases; a released message has no claim time.
            and (held.read_ct < 2147483647 or held.claimed_at is null or held.claimed_at = noted.claimed_at),
            false
        )
    ) as this (is_noted)
    order by claim.position;
end;
$$;

comment on function sluice._tried_messages(text, bigint[], integer[], timestamptz[], integer) is
    'Lock the messages of claims and return their recorded attempts.';
revoke execute on function sluice._tried_messages(text, bigint[], integer[], timestamptz[], integer) from public;
grant execute on function sluice._tried_messages(text, bigint[], integer[], timestamptz[], integer) to sluice_admin, sluice_reader;
