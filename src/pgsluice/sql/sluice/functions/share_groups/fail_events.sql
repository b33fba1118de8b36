/*
 * failures is a list of objects, as of sluice.fail: ev_id; reject: do not retry; delay: seconds until the retry, instead of the back-off; delay_min: at least this delay; reason, error_type,
 * error and trace are stored with it. policy overrides the back-off of the group, and can lower its max_attempts.
 *
 * The outcomes are read from the ledger after they were written, so a repetition after a lost reply returns those of the first call.
 *
 * Calls: sluice._hold_claim, sluice._claimed_events, sluice._settle, sluice._retry_settings, sluice._decide, sluice._backoff. Writes: the ledgers of outcomes,
 * sluice.dead_letter.
 */
create or replace function sluice.fail_events(
    log_name text, group_name text, claim_id bigint, failures jsonb, worker text default null, policy jsonb default null
)
returns table (ev_id bigint, outcome text, attempt integer, delay double precision)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_claim constant sluice.claim := sluice._hold_claim(v_group, claim_id);
    v_ev_ids constant bigint[] := array(select (f.failure ->> 'ev_id')::bigint from jsonb_array_elements(failures) as f (failure));
    v_policy sluice.retry_policy;
    v_part record;
begin
    v_policy := sluice._retry_settings(null::text, policy);
    if policy is null then
        v_policy.max_attempts := v_group.max_attempts;
    end if;
    -- Rejections first: they settle no other events, while a retry also releases the later events of its key.
    for v_part in
        select v.outcome, v.delay, v.reason, v.error_type, v.error, v.trace, array_agg(v.ev_id order by v.position) as ev_ids
        from (
            select f.ev_id, f.position, f.error_type, f.trace,
                case d.outcome when 'dead' then 'reject' else 'retry' end as outcome,
                d.reason,
                case when f.is_rejected then f.error else coalesce(f.error, f.reason) end as error,
                -- The back-off of the group is that of each redelivery when a claim schedules it.
                case when policy is not null or coalesce(f.delay, f.delay_min) is not null then d.delay end as delay
            from rows from (jsonb_to_recordset(failures) as (
                ev_id bigint, delay double precision, delay_min double precision, reject boolean, reason text, error_type text, error text, trace text
            )) with ordinality as f (ev_id, delay, delay_min, is_rejected, reason, error_type, error, trace, position)
            left join sluice._claimed_events(v_group, v_claim, v_ev_ids) as c on c.ev_id = f.ev_id
            cross join lateral sluice._decide(
                v_policy, coalesce(c.attempts, 0) + 1, sluice._is_last(coalesce(c.attempts, 0) + 1, v_group.max_attempts, c.deliveries + 1, v_group.max_deliveries),
                failures -> (f.position - 1)::integer
            ) as d
        ) as v
        group by v.outcome, v.delay, v.reason, v.error_type, v.error, v.trace
        order by v.outcome, min(v.position)
    loop
        if v_part.outcome = 'retry' and v_group.key is not null then
            v_part.ev_ids := array(
                select e.ev_id
                from unnest(v_part.ev_ids) as e (ev_id)
                where not exists (
                    select
                    from sluice.outcome as o
                    where o.group_id = v_group.group_id
                      and o.claim_id = fail_events.claim_id
                      and o.outcome = 'release'
                      and o.outcome_txid = pg_current_xact_id()
                      and e.ev_id = any (o.ev_ids)
                )
            );
            continue when v_part.ev_ids = '{}';
        end if;
        perform sluice._settle(
            v_group, claim_id, v_part.outcome, v_part.ev_ids, v_part.delay,
            case
                when v_part.outcome = 'retry' and v_part.error_type is not null
                then concat_ws(E'\n', format('%s: %s', v_part.error_type, v_part.error), v_part.trace)
                else v_part.error
            end,
            v_part.reason,
            jsonb_build_object('error_type', v_part.error_type, 'trace', v_part.trace, 'worker', worker)
        );
    end loop;

    return query
        select f.ev_id,
            case o.outcome when 'reject' then 'dead' when 'retry' then 'retry' else 'released' end,
            c.attempts + 1,
            case when o.outcome <> 'reject' then extract(epoch from coalesce(
                o.delay,
                case when o.outcome = 'retry' then sluice._backoff(
                    v_group.backoff, v_group.backoff_base, 2::double precision, v_group.backoff_max, false, c.attempts + 1
                ) end
            ))::double precision end
        from unnest(v_ev_ids) with ordinality as f (ev_id, position)
        left join sluice._claimed_events(v_group, v_claim, v_ev_ids) as c on c.ev_id = f.ev_id
        join sluice.outcome as o
            on o.group_id = v_group.group_id and o.claim_id = fail_events.claim_id and o.outcome <> 'renew'
            and (o.ev_ids is null or f.ev_id = any (o.ev_ids))
        order by f.position;
end;
$$;

comment on function sluice.fail_events(text, text, bigint, jsonb, text, jsonb) is
    'Settle events of a claim whose handlers failed; returns for each, in order: retry (redelivered after the delay, in seconds, at most, as the back-off of the group is jittered), dead (rejected, or the last attempt or delivery: dead-lettered) or released (behind an earlier event of its key), with the number of the attempt.';
revoke execute on function sluice.fail_events(text, text, bigint, jsonb, text, jsonb) from public;
grant execute on function sluice.fail_events(text, text, bigint, jsonb, text, jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
