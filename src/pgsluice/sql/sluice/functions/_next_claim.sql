-- Never a number again that a consumer may have, not even of a claim that a crash or a rollback undid: it would settle another one's events.
create or replace function sluice._next_claim(i_last sluice.claim)
returns sluice.claim
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_last.claim_id := greatest(i_last.claim_id + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    i_last.claimed_at := clock_timestamp();
    i_last.lease_until := null;
    i_last.from_ev_id := i_last.upto_ev_id;
    i_last.events := 0;
    i_last.from_due := i_last.upto_due;
    i_last.from_redelivery := i_last.upto_redelivery;
    i_last.redeliveries := 0;
    return i_last;
end;
$$;

comment on function sluice._next_claim(sluice.claim) is
    'The claim that comes after the newest one, with nothing in it yet.';
revoke execute on function sluice._next_claim(sluice.claim) from public;
grant execute on function sluice._next_claim(sluice.claim) to pgq_admin, sluice_admin;
