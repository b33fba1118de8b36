-- Whoever counts what may be claimed holds this lock to the end of the transaction, and counts after it got it: then nobody claims in
-- between. A claim takes about a millisecond, and its commit some more. Whoever keeps the lock for seconds has claimed in a transaction
-- that it leaves open: then an error that names it is of more use than a wait.
create or replace function sluice._lock_limits(limits_id integer)
returns sluice.queue_limits
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936484717;
    v_limits sluice.queue_limits;
    v_holder text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'active_sql_transaction',
            message = format(
                'cannot claim from a queue with limits in a %s transaction', current_setting('transaction_isolation')
            ),
            detail = 'Its snapshot may be older than the last claims, and it would not count them.',
            hint = 'claim in a READ COMMITTED transaction, best one of its own';
    end if;
    if not sluice._try_lock(v_lock_class, limits_id) then
        v_holder := sluice._wait_for_lock(v_lock_class, limits_id);
        if v_holder is not null then
            raise exception using
                errcode = 'lock_not_available',
                message = format(
                    'queue %L is being claimed from in a transaction that stays open', (
                        select l.queue_name from sluice.queue_limits as l where l.limits_id = _lock_limits.limits_id
                    )
                ),
                detail = v_holder,
                hint = 'commit right after each claim from a queue with limits';
        end if;
    end if;
    select l.*
    into v_limits
    from sluice.queue_limits as l
    where l.limits_id = _lock_limits.limits_id;
    return v_limits;
end;
$$;

comment on function sluice._lock_limits(integer) is
    'Lock the limits of a queue to the end of the transaction, and return them; nulls when they were dropped meanwhile.';
revoke execute on function sluice._lock_limits(integer) from public;
grant execute on function sluice._lock_limits(integer) to sluice_admin, sluice_reader;
