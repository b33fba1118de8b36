-- Held until the end of the transaction by a claim that counts messages: it counts after acquiring the lock, so no other
-- claim happens in between. A claim and its commit take milliseconds. A session that holds the lock for seconds has claimed
-- in a transaction that it left open: an error that names it is more useful than a wait.
create or replace function sluice._lock_limits(limits_id integer)
returns sluice.queue_settings
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936484717;
    v_limits sluice.queue_settings;
    v_holder text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'active_sql_transaction',
            message = format(
                'cannot claim from a queue with limits in a %s transaction', current_setting('transaction_isolation')
            ),
            detail = 'Its snapshot may be older than the last claims, and it would not count them.',
            hint = 'claim in a READ COMMITTED transaction, preferably a separate one';
    end if;
    if not sluice._try_lock(v_lock_class, limits_id) then
        v_holder := sluice._wait_for_lock(v_lock_class, limits_id);
        if v_holder is not null then
            raise exception using
                errcode = 'lock_not_available',
                message = format(
                    'queue %L is being claimed from in a transaction that stays open', (
                        select l.queue_name from sluice.queue_settings as l where l.limits_id = _lock_limits.limits_id
                    )
                ),
                detail = v_holder,
                hint = 'commit immediately after each claim from a queue with limits';
        end if;
    end if;
    select l.*
    into v_limits
    from sluice.queue_settings as l
    where l.limits_id = _lock_limits.limits_id;
    return v_limits;
end;
$$;

comment on function sluice._lock_limits(integer) is
    'Lock the limits of a queue until the end of the transaction, and return them; nulls if they were dropped meanwhile.';
revoke execute on function sluice._lock_limits(integer) from public;
grant execute on function sluice._lock_limits(integer) to sluice_admin, sluice_reader;
