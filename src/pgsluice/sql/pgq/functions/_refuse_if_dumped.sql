-- Fires at the commit of a transaction that truncates tables, after everything else that it does. From here on only the
-- commit itself is left: the flush of its WAL, and the wait for synchronous standbys.
create or replace function pgq._refuse_if_dumped()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pids constant integer[] := pgq._dumped_by();
begin
    if v_pids is not null then
        raise exception using
            errcode = 'serialization_failure',
            message = format('could not truncate tables: pg_dump was started meanwhile (pid %s)', array_to_string(v_pids, ', ')),
            detail = 'Its snapshot does not show what this transaction copied from them, so the dump would lack these rows.',
            hint = 'retry the transaction; no table is truncated while pg_dump is connected';
    end if;
    return null;
end;
$$;

comment on function pgq._refuse_if_dumped() is
    'Trigger function: roll back a transaction that truncated tables if pg_dump is connected at its commit.';
revoke execute on function pgq._refuse_if_dumped() from public;

-- Not replaced at every installation: that would wait for a running pg_dump.
do $$
begin
    perform from pg_trigger as t where t.tgrelid = 'pgq.truncation'::regclass and t.tgname = 'refuse_if_dumped';
    if not found then
        create constraint trigger refuse_if_dumped
        after insert on pgq.truncation
        deferrable initially deferred
        for each row execute function pgq._refuse_if_dumped();
    end if;
end;
$$;
