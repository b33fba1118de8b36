-- Writes to the table with the same number as the claim's: there the unique key refuses a second outcome with the same number, even from a transaction
-- whose snapshot does not see the first.
create or replace function sluice._write_outcome(i_outcome sluice.outcome)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
    i_outcome.outcome_txid := pg_current_xact_id();
    i_outcome.outcome_at := clock_timestamp();
    perform from sluice.claim_0 as c where c.group_id = i_outcome.group_id and c.claim_id = i_outcome.claim_id;
    if found then
        insert into sluice.outcome_0 values (i_outcome.*) on conflict do nothing;
    else
        insert into sluice.outcome_1 values (i_outcome.*) on conflict do nothing;
    end if;
    if not found then
        raise exception using
            errcode = 'serialization_failure',
            message = format('could not settle claim %s: it has an outcome that this transaction does not see', i_outcome.claim_id),
            hint = 'retry the transaction, preferably in READ COMMITTED';
    end if;
    return i_outcome.outcome_at;
end;
$$;

comment on function sluice._write_outcome(sluice.outcome) is
    'Append an outcome of a claim or of some of its events, and return its time. The caller has locked the claim''s row.';
revoke execute on function sluice._write_outcome(sluice.outcome) from public;
grant execute on function sluice._write_outcome(sluice.outcome) to pgq_admin, sluice_admin;
