/*
 * read_ct stays: it is the fence. So that the claim does not count, it is noted where it would: if its start was noted, or if it
 * is the first one, which counts without a note.
 *
 * Calls: sluice.lock_messages, sluice._attempt_sql. Writes: the queue, sluice.attempt.
 */
create or replace function sluice.hand_back(
    queue_name text, msg_ids bigint[], read_cts integer[], delay double precision default 0
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_outcomes text[];
begin
    v_outcomes := array(
        select l.outcome
        from sluice.lock_messages(queue_name, msg_ids, read_cts) with ordinality as l (msg_id, outcome, position)
        order by l.position
    );
    return query execute sluice._attempt_sql(
        queue_name,
        -- One that has failed is settled, and its pause stays.
        'select message.msg_id,
            case when message.said = ''failed'' then ''stale'' else ''done'' end as outcome,
            message.counted as attempts,
            case
                when message.said = ''begun'' or (message.said is null and message.read_ct <= 1) then ''handed back''
            end as note,
            case when coalesce(message.said, ''begun'') = ''begun'' then $7 end as visible_at,
            null as reason,
            message.error_type, message.error, message.trace, message.worker,
            message.first_failed_at, message.last_failed_at
        from message',
        'claim.msg_id, coalesce(judged.outcome, claim.outcome)'
    )
    using msg_ids, v_outcomes, null::integer[], queue_name, null::integer, null::text,
        clock_timestamp() + make_interval(secs => delay);
end;
$$;

comment on function sluice.hand_back(text, bigint[], integer[], double precision) is
    'Give claimed messages back, visible after delay seconds, as if this claim had not been: it counts as no attempt; says of each claim, in their order: done, stale (claimed again or failed since) or gone (not in the queue).';
revoke execute on function sluice.hand_back(text, bigint[], integer[], double precision) from public;
grant execute on function sluice.hand_back(text, bigint[], integer[], double precision) to sluice_admin, sluice_reader;
