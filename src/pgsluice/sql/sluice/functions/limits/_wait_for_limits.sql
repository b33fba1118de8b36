create or replace function sluice._wait_for_limits(limits_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936484717;
    v_holder text := sluice._wait_for_lock(v_lock_class, limits_id);
begin
    if v_holder is not null then
        raise exception using
            errcode = 'lock_not_available',
            message = format(
                'queue %L is being claimed from in a transaction that stays open', (
                    select l.queue_name from sluice.queue_limits as l where l.limits_id = _wait_for_limits.limits_id
                )
            ),
            detail = v_holder,
            hint = 'commit right after each claim from a queue with limits';
    end if;
end;
$$;

comment on function sluice._wait_for_limits(integer) is
    'Wait for the lock on the limits of a queue, about two seconds at the most; the error names who has it.';
revoke execute on function sluice._wait_for_limits(integer) from public;
grant execute on function sluice._wait_for_limits(integer) to sluice_admin, sluice_reader;
