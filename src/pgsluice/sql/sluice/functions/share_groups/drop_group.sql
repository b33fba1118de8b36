create or replace function sluice.drop_group(log_name text, group_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group sluice.share_group;
    v_claim sluice.claim;
begin
    perform pgq._require_log(log_name);
    select g.*
    into v_group
    from sluice.share_group as g
    join pgq.queue as q on q.queue_id = g.queue_id
    where q.queue_name = drop_group.log_name and g.group_name = drop_group.group_name;
    if not found then
        return false;
    end if;
    -- Under the lock no claim is running. A session that waits for the lock finds this row, which marks the group as dropped. Its other ledger rows have no
    -- effect, and are removed when the ledgers are next emptied.
    v_group := sluice._lock_group(log_name, group_name);
    v_claim := sluice._last_claim(v_group.group_id);
    if v_claim.claim_id is not null then -- else its claims were removed by hand
        v_claim := sluice._next_claim(v_claim);
        v_claim.open_claim := null;
        perform sluice._write_claim(v_claim);
    end if;
    perform from pgq.subscriber as s where s.sub_key = v_group.sub_key for update;
    perform pgq._remove_subscribers(array[v_group.sub_key]);
    perform sluice.note_action(
        'drop_group'::text, log_name, jsonb_build_object('group_name', group_name), null::bigint, null::text
    );
    return true;
end;
$$;

comment on function sluice.drop_group(text, text) is
    'Drop a share group; false if it does not exist. Its dead letters are kept.';
revoke execute on function sluice.drop_group(text, text) from public;
grant execute on function sluice.drop_group(text, text) to pgq_admin, sluice_admin;
