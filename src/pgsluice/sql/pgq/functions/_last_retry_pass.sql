create or replace function pgq._last_retry_pass()
returns pgq.retry_pass
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pass pgq.retry_pass;
begin
    select p.* into v_pass from pgq.retry_pass as p order by p.pass_id desc limit 1;
    -- There always is one. But the tables are truncated, and a snapshot older than that sees them empty.
    if not found then
        raise exception using
            errcode = 'serialization_failure',
            message = 'could not read the last retry pass: it is newer than this transaction''s snapshot',
            detail = format(
                'Snapshot %s (%s) sees no row of pgq.retry_pass, which has %s bytes.',
                pg_current_snapshot(), current_setting('transaction_isolation'), pg_relation_size('pgq.retry_pass')
            ),
            hint = 'retry the transaction, preferably in READ COMMITTED';
    end if;
    return v_pass;
end;
$$;

comment on function pgq._last_retry_pass() is
    'Return the last pass that moved due entries into their logs.';
revoke execute on function pgq._last_retry_pass() from public;
grant execute on function pgq._last_retry_pass() to pgq_admin, sluice_admin;
