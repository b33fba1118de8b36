-- A claim takes well under a millisecond, plus its commit. A session that holds the lock for seconds has claimed in a transaction that it leaves open: then an
-- error that names the session is more useful than waiting.
create or replace function sluice._wait_for_group(i_group sluice.share_group)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1936221042;
    v_holder text := sluice._wait_for_lock(v_lock_class, i_group.group_id);
begin
    if v_holder is not null then
        raise exception using
            errcode = 'SG005',
            message = format('share group %L is being claimed from in a transaction that stays open', i_group.group_name),
            detail = v_holder,
            hint = 'commit right after each claim; acknowledgements may take part in any transaction';
    end if;
end;
$$;

comment on function sluice._wait_for_group(sluice.share_group) is
    'Wait for the lock of a share group, for about two seconds; then raise an error that names its holder.';
revoke execute on function sluice._wait_for_group(sluice.share_group) from public;
grant execute on function sluice._wait_for_group(sluice.share_group) to pgq_admin, sluice_admin;
