create or replace function sluice._write_claim(i_claim sluice.claim)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Static statements, so that their plans are cached.
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.claim_0 values (i_claim.*);
    else
        insert into sluice.claim_1 values (i_claim.*);
    end if;
end;
$$;

comment on function sluice._write_claim(sluice.claim) is
    'Append a claim, which advances the cursor of its group. The caller holds the group''s lock.';
revoke execute on function sluice._write_claim(sluice.claim) from public;
grant execute on function sluice._write_claim(sluice.claim) to pgq_admin, sluice_admin;
