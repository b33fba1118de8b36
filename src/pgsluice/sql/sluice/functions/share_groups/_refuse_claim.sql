create or replace function sluice._refuse_claim(i_group sluice.share_group, i_claim_id bigint, i_ev_ids bigint[] default null)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'SG002',
        message = format('claim %s of share group %L is no longer held', i_claim_id, i_group.group_name),
        detail = case
            when i_ev_ids is null then 'It was settled with another outcome, or its lease expired and its events were claimed again.'
            else format(
                'Events %s were settled with another outcome, or their lease expired and they were claimed again.',
                array_to_string(i_ev_ids[1:10], ', ')
            )
        end,
        hint = 'roll back the work for it; claim with a longer lease, or renew the lease in time';
end;
$$;

comment on function sluice._refuse_claim(sluice.share_group, bigint, bigint[]) is
    'Raise an error: a claim, or some of its events, is no longer held.';
revoke execute on function sluice._refuse_claim(sluice.share_group, bigint, bigint[]) from public;
grant execute on function sluice._refuse_claim(sluice.share_group, bigint, bigint[]) to pgq_admin, sluice_admin;
