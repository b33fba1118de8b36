create or replace function sluice._require_all_rows(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot capture the rows of %s in a %s transaction', relation, current_setting('transaction_isolation')),
            detail = 'Rows that were changed since the transaction began are not visible to it.',
            hint = 'use a READ COMMITTED transaction';
    end if;
    -- It would silently leave rows out, and run code of the owner of the table.
    if row_security_active(relation) then
        raise exception using
            errcode = '42501',
            message = format('row-level security hides rows of %s from %I', relation, current_user),
            hint = format('let %I bypass it, or disable it for %s', current_user, relation);
    end if;
end;
$$;

comment on function sluice._require_all_rows(regclass) is
    'Raise an error if this transaction may not see all committed rows of a table.';
revoke execute on function sluice._require_all_rows(regclass) from public;
grant execute on function sluice._require_all_rows(regclass) to pgq_admin, sluice_admin;
