-- Never before the group's cursor, the last redelivery that it has read: a row before it would never be read.
create or replace function sluice._write_redelivery(i_claim sluice.claim, i_redelivery sluice.redelivery)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_redelivery.group_id := i_claim.group_id;
    i_redelivery.due_at := greatest(i_redelivery.due_at, i_claim.upto_due);
    i_redelivery.redelivery_id := nextval('sluice.redelivery_id_seq');
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.redelivery_0 values (i_redelivery.*);
    else
        insert into sluice.redelivery_1 values (i_redelivery.*);
    end if;
end;
$$;

comment on function sluice._write_redelivery(sluice.claim, sluice.redelivery) is
    'Append an event for redelivery, or a check of a lease, after the cursor in i_claim. The caller holds the group''s lock.';
revoke execute on function sluice._write_redelivery(sluice.claim, sluice.redelivery) from public;
grant execute on function sluice._write_redelivery(sluice.claim, sluice.redelivery) to pgq_admin, sluice_admin;
