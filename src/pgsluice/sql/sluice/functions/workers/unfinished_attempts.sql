/*
 * For workers, which do not start a message that may have killed its process beside other messages. A message without a row
 * was claimed before, because its first start is not recorded.
 *
 * Reads: sluice.attempt.
 */
create or replace function sluice.unfinished_attempts(queue_name text, msg_ids bigint[])
returns setof bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select claim.msg_id
    from unnest(unfinished_attempts.msg_ids) with ordinality as claim (msg_id, position)
    left join sluice.attempt as noted
        on noted.queue_name = lower(unfinished_attempts.queue_name)
        and noted.msg_id = claim.msg_id
    where noted.state is null
    or noted.state = 'begun'
    order by claim.position;
$$;

comment on function sluice.unfinished_attempts(text, bigint[]) is
    'Return the redelivered messages whose last start has no outcome: they may have killed their process.';
revoke execute on function sluice.unfinished_attempts(text, bigint[]) from public;
grant execute on function sluice.unfinished_attempts(text, bigint[]) to sluice_admin, sluice_reader;

/*
 * For workers: an event that may have crashed its process must not run concurrently with others. sluice._redeliver marks an expired lease that counts as an
 * attempt in the error of the event.
 *
 * Calls: sluice._require_group, sluice._claimed_events. Reads: sluice.claim.
 */
create or replace function sluice.unfinished_attempts(log_name text, group_name text, claim_id bigint)
returns setof bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._require_group(log_name, group_name);
    v_claim sluice.claim;
begin
    select c.* into v_claim from sluice.claim as c where c.group_id = v_group.group_id and c.claim_id = unfinished_attempts.claim_id;
    -- Only a redelivery can have an expired lease; claims that store their events do not store redeliveries apart.
    if v_group.key is null and not v_claim.is_stored then
        v_claim.events := 0;
    end if;
    return query
        select e.ev_id
        from sluice._claimed_events(v_group, v_claim, null::bigint[]) as e
        where e.error like 'its lease ended%';
end;
$$;

comment on function sluice.unfinished_attempts(text, text, bigint) is
    'Return the events of a claim whose previous lease expired as a failed attempt, in order: they may have crashed their process.';
revoke execute on function sluice.unfinished_attempts(text, text, bigint) from public;
grant execute on function sluice.unfinished_attempts(text, text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
