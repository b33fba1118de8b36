-- Settling is idempotent: a retry with the same outcome, as after a lost reply, does nothing. A different outcome is refused.
create or replace function sluice._unsettled(i_group sluice.share_group, i_claim sluice.claim, i_outcome text, i_ev_ids bigint[])
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claimed bigint[];
    v_asked bigint[];
    v_others bigint[];
    v_lost bigint[];
    v_left bigint[];
begin
    if array_position(i_ev_ids, null) is not null then
        raise exception using
            errcode = '22004',
            message = 'an event id is null',
            hint = 'pass the ev_id of events of the claim, or null for all its events';
    end if;
    v_claimed := array(select distinct e.ev_id from sluice._claimed_events(i_group, i_claim, i_ev_ids) as e order by e.ev_id);
    v_asked := case
        when i_ev_ids is null then v_claimed
        else array(select distinct a.ev_id from unnest(i_ev_ids) as a (ev_id) order by a.ev_id)
    end;
    -- The segment of a settled event may have been truncated. Then its outcome has the ev_id; an outcome of the whole claim has none, and any ev_id is accepted.
    v_others := array(
        select a.ev_id
        from unnest(v_asked) as a (ev_id)
        where a.ev_id <> all (v_claimed)
          and not exists (
              select
              from sluice.outcome as o
              where o.group_id = i_group.group_id
                and o.claim_id = i_claim.claim_id
                and o.outcome <> 'renew'
                and (o.ev_ids is null or a.ev_id = any (o.ev_ids))
          )
        order by a.ev_id
    );
    if v_others <> '{}' then
        raise exception using
            errcode = 'SG003',
            message = format('claim %s of share group %L does not have all of these events', i_claim.claim_id, i_group.group_name),
            detail = format('Missing: %s.', array_to_string(v_others[1:10], ', ')),
            hint = 'acknowledge events with the claim_id that sluice.claim() returned with them';
    end if;

    -- A retry on the last attempt was stored as a reject. Without ev_ids only the unsettled events are meant: they are lost when the lease expired, or when one
    -- outcome settled the whole claim.
    v_lost := array(
        select s.ev_id
        from sluice.outcome as o
        cross join unnest(coalesce(o.ev_ids, v_asked)) as s (ev_id)
        where o.group_id = i_group.group_id
          and o.claim_id = i_claim.claim_id
          and o.outcome not in ('renew', i_outcome, case when i_outcome = 'retry' then 'reject' else 'renew' end)
          and (i_ev_ids is not null or o.ev_ids is null or o.outcome = 'lapse')
          and (i_ev_ids is null or s.ev_id = any (v_asked))
        order by s.ev_id
    );
    if v_lost <> '{}' then
        perform sluice._refuse_claim(i_group, i_claim.claim_id, v_lost);
    end if;
    v_left := array(
        select a.ev_id
        from unnest(v_asked) as a (ev_id)
        where not exists (
            select
            from sluice.outcome as o
            where o.group_id = i_group.group_id
              and o.claim_id = i_claim.claim_id
              and o.outcome <> 'renew'
              and (o.ev_ids is null or a.ev_id = any (o.ev_ids))
        )
        order by a.ev_id
    );
    if v_left = '{}' and i_ev_ids is null and not exists (
        select
        from sluice.outcome as o
        where o.group_id = i_group.group_id
          and o.claim_id = i_claim.claim_id
          and o.outcome in (i_outcome, case when i_outcome = 'retry' then 'reject' else i_outcome end)
    ) then
        perform sluice._refuse_claim(i_group, i_claim.claim_id, null::bigint[]);
    end if;
    return v_left;
end;
$$;

comment on function sluice._unsettled(sluice.share_group, sluice.claim, text, bigint[]) is
    'Return the unsettled events of a claim, all or of the given ones; an error if one was settled with another outcome.';
revoke execute on function sluice._unsettled(sluice.share_group, sluice.claim, text, bigint[]) from public;
grant execute on function sluice._unsettled(sluice.share_group, sluice.claim, text, bigint[]) to pgq_admin, sluice_admin;
