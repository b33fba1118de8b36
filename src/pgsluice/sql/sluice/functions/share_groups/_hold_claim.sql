-- The row of a claim is never updated, so FOR NO KEY UPDATE writes only the lock, in place.
create or replace function sluice._hold_claim(i_group sluice.share_group, i_claim_id bigint)
returns sluice.claim
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim;
begin
    select c.*
    into v_claim
    from sluice.claim as c
    where c.group_id = i_group.group_id and c.claim_id = i_claim_id
    for no key update;
    if current_setting('transaction_isolation') <> 'read committed' then
        -- Raises a serialization error if the ledgers were emptied since this snapshot, see sluice._maintain_ledgers.
        perform from sluice.ledger as l for share;
    end if;
    if v_claim.lease_until is not null then
        return v_claim;
    elsif v_claim.claim_id is null and i_claim_id between 1 and (sluice._last_claim(i_group.group_id)).claim_id then
        perform sluice._refuse_claim(i_group, i_claim_id, null::bigint[]);
    end if;
    raise exception using
        errcode = 'SG003',
        message = format('share group %L has no claim %s', i_group.group_name, coalesce(i_claim_id::text, 'null')),
        hint = 'pass the claim_id that sluice.claim() returned';
end;
$$;

comment on function sluice._hold_claim(sluice.share_group, bigint) is
    'Lock a claim to settle or renew it; an error if it does not exist or is no longer held.';
revoke execute on function sluice._hold_claim(sluice.share_group, bigint) from public;
grant execute on function sluice._hold_claim(sluice.share_group, bigint) to pgq_admin, sluice_admin;
