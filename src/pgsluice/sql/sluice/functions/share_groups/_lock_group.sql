-- A session that moves a group's claim cursor holds this lock until the end of its transaction, and reads the cursor after it has the lock.
create or replace function sluice._lock_group(log_name text, group_name text)
returns sluice.share_group
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936221042;
    v_group sluice.share_group;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'SG004',
            message = format('cannot claim in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot may be older than the last claims, and it would hand out their events again.',
            hint = 'claim in a READ COMMITTED transaction, preferably a separate one';
    end if;
    select g.*
    into v_group
    from sluice.share_group as g
    where g.log_name = _lock_group.log_name and g.group_name = _lock_group.group_name;
    if not found then
        perform sluice._require_group(log_name, group_name);
    end if;
    if not sluice._try_lock(v_lock_class, v_group.group_id) then
        perform sluice._wait_for_group(v_group);
    end if;
    return v_group;
end;
$$;

comment on function sluice._lock_group(text, text) is
    'Lock a share group until the end of the transaction, and return its row.';
revoke execute on function sluice._lock_group(text, text) from public;
grant execute on function sluice._lock_group(text, text) to pgq_admin, sluice_admin;
