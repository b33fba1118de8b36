create or replace function sluice._write_outcome(i_outcome sluice.outcome)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_outcome.outcome_txid := pg_current_xact_id();
    i_outcome.outcome_at := clock_timestamp();
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.outcome_0 values (i_outcome.*);
    else
        insert into sluice.outcome_1 values (i_outcome.*);
    end if;
end;
$$;

comment on function sluice._write_outcome(sluice.outcome) is
    'Append what became of a claim or of events in it. The caller has the lock of the claim''s row.';
revoke execute on function sluice._write_outcome(sluice.outcome) from public;
grant execute on function sluice._write_outcome(sluice.outcome) to pgq_admin, sluice_admin;
